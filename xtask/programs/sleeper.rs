use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

fn main() {
    let turn = Arc::new((Mutex::new(0), Condvar::new()));
    let player = |own: usize, turn: Arc<(Mutex<usize>, Condvar)>| {
        std::thread::Builder::new().name(format!("player-{own}")).spawn(move || {
            for _ in 0..2000 {
                let guard = turn.0.lock().unwrap();
                let (mut guard, _) = turn.1.wait_timeout_while(guard, Duration::from_secs(1), |at| *at != own).unwrap();
                *guard = 1 - own;
                turn.1.notify_one();
            }
        })
    };
    let players: Vec<_> = (0..2).map(|own| player(own, Arc::clone(&turn)).unwrap()).collect();
    players.into_iter().for_each(|one| one.join().unwrap());
    (0..300).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
    println!("4000 turns, 300 sleeps");
}
