//! Chromium without a window, driven over its own pipe (the DevTools protocol, JSON messages ended by a zero byte).
//!
//! The shell puts the two pipes where `--remote-debugging-pipe` looks for them, at descriptors 3 and 4.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use serde_json::{Value, json};

/// Longest that a browser lives, so that one that hangs does not hang the tests.
const LIFE_S: u32 = 600;

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    next: u64,
    session: Option<String>,
    /// Everything the browser told unasked: messages of the console, requests, exceptions.
    pub(crate) events: Vec<Value>,
    _profile: tempfile::TempDir,
}

/// The browser's program; None where none is installed.
fn program() -> Option<&'static str> {
    let there = |name: &&str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(name).is_file())
    };
    ["chromium", "chromium-browser", "google-chrome", "chrome"].into_iter().find(there)
}

impl Browser {
    /// Starts one; None, with a word, where there is none.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = program() else {
            punctual_testing::skip("chromium is not installed; Debian: apt-get install chromium");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let line = format!(
            "exec timeout {LIFE_S} {program} --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
             --disable-background-networking --hide-scrollbars --remote-debugging-pipe --user-data-dir={} about:blank \
             3<&0 4>&1 </dev/null >/dev/null 2>&1",
            profile.path().display()
        );
        let mut child =
            Command::new("sh").arg("-c").arg(line).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Self { child, to, from, next: 0, session: None, events: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.call("Page.setLifecycleEventsEnabled", json!({"enabled": true}));
        Some(browser)
    }

    /// Asks for something and returns the answer.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        let to = self.to.as_mut().unwrap();
        to.write_all(message.to_string().as_bytes())
            .and_then(|()| to.write_all(b"\0"))
            .expect("chromium takes messages");
        loop {
            let answer = self.message();
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "chromium ended, or did not start: run it by hand to see why");
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Opens a file and waits until it is loaded.
    pub(crate) fn open(&mut self, path: &Path) {
        self.events.clear();
        let went = self.call("Page.navigate", json!({"url": format!("file://{}", path.display())}));
        assert!(went["errorText"].is_null(), "{went}");
        // On a busy machine the empty page before it may be loaded only now.
        let loaded = |event: &Value| {
            let params = &event["params"];
            event["method"] == "Page.lifecycleEvent"
                && params["name"] == "load"
                && params["loaderId"] == went["loaderId"]
        };
        while !self.events.iter().any(loaded) {
            let event = self.message();
            self.events.push(event);
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let wanted = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", wanted);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Moves the pointer.
    pub(crate) fn point_at(&mut self, x: f64, y: f64) {
        self.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
    }

    /// Clicks.
    pub(crate) fn click(&mut self, x: f64, y: f64) {
        for kind in ["mousePressed", "mouseReleased"] {
            self.call(
                "Input.dispatchMouseEvent",
                json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}),
            );
        }
    }

    /// Presses a key, by its DOM name and its Windows code.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}),
            );
        }
    }

    /// Makes the page believe in another width, colour scheme or medium. A phone is 800 pixels high, a screen 900.
    pub(crate) fn emulate(&mut self, width: u32, scheme: &str, medium: &str) {
        let is_phone = width < 600;
        let height = if is_phone { 800 } else { 900 };
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": medium, "features": features}));
    }

    /// What went wrong in the page: messages of the console, exceptions, log entries.
    pub(crate) fn complaints(&self) -> Vec<&Value> {
        let wrong = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
        self.events.iter().filter(|event| wrong.iter().any(|name| event["method"] == *name)).collect()
    }

    /// Addresses that the page asked for.
    pub(crate) fn requests(&self) -> Vec<&str> {
        let asked = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        asked.filter_map(|event| event["params"]["request"]["url"].as_str()).collect()
    }

    /// Saves pictures of the whole page, from the top down, for a person to look at. `PUNCTUAL_SCREENSHOTS` names their folder.
    pub(crate) fn photograph(&mut self, name: &str, width: u32) {
        const SLICE: u32 = 1400;
        let Some(folder) = std::env::var_os("PUNCTUAL_SCREENSHOTS") else { return };
        let height = self.eval("document.documentElement.scrollHeight").as_f64().unwrap() as u32;
        for (i, top) in (0..height).step_by(SLICE as usize).enumerate() {
            let clip = json!({"x": 0, "y": top, "width": width, "height": SLICE.min(height - top), "scale": 1});
            let wanted = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
            let shot = self.call("Page.captureScreenshot", wanted);
            let png = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
            std::fs::write(Path::new(&folder).join(format!("{name}-{i}.png")), &png).unwrap();
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends when nobody drives it any more; should it not, timeout(1) ends it.
        drop(self.to.take());
        let _ = self.child.wait();
    }
}
