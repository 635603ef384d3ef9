import threading

turn, condition = 0, threading.Condition()


def player(own):
    global turn
    for _ in range(1500):
        with condition:
            while turn != own:
                condition.wait(timeout=1)
            turn = 1 - own
            condition.notify()


players = [threading.Thread(target=player, args=(own,)) for own in (0, 1)]
[one.start() for one in players]
[one.join() for one in players]
print("3000 turns")
