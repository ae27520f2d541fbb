//! The control socket: a command a line, an answer of one line of JSON.
//!
//! | command | does | answers |
//! |---|---|---|
//! | `cut` | fails the supply now | the status |
//! | `restore` | gives it back | what the recovery took |
//! | `status` | nothing | the status |
//! | `stats` | nothing | requests, latencies and what the device did |
//! | `stop` | ends the server | the status |

use crate::shared::Shared;
use crate::socket::{Listener, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

/// How long a client of this socket may take for each piece of its line.
const PATIENCE_NS: i64 = 500_000_000;

/// Longest command.
const COMMAND_BYTES_MAX: usize = 64;

/// Answers commands until the server stops.
pub(crate) fn serve(shared: &Shared, listener: &Listener) {
    while !shared.is_stopping() {
        let look = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let mut polled = [PollFd::new(listener, PollFlags::IN)];
        let _ = poll(&mut polled, Some(&look));
        let Ok(socket) = listener.accept() else { continue };
        if let Some(command) = read_line(&socket) {
            let mut answer = answer(shared, command.trim()).to_string();
            answer.push('\n');
            let _ = rustix::io::write(&socket, answer.as_bytes());
        }
        socket.shut();
    }
}

fn read_line(socket: &Socket) -> Option<String> {
    let mut line = Vec::new();
    while !line.contains(&b'\n') && line.len() <= COMMAND_BYTES_MAX {
        let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE_NS };
        let mut polled = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut polled, Some(&patience)) {
            Ok(0) => return None,
            // A signal that the process handles.
            Err(rustix::io::Errno::INTR) => continue,
            told => told.ok()?,
        };
        let mut bytes = [0; COMMAND_BYTES_MAX];
        let count = rustix::io::read(socket, &mut bytes).ok()?;
        if count == 0 {
            break;
        }
        line.extend_from_slice(&bytes[..count]);
    }
    String::from_utf8(line).ok()
}

fn answer(shared: &Shared, command: &str) -> Value {
    let status = || serde_json::to_value(shared.status()).unwrap_or_default();
    match command {
        "cut" => {
            shared.cut();
            status()
        }
        "restore" => match shared.restore() {
            Ok(recovery) => json!({
                "ready_ns": recovery.ready_ns,
                "reads": recovery.reads,
                "changes": recovery.changes,
            }),
            Err(failure) => json!({ "error": failure.to_string() }),
        },
        "status" => status(),
        "stats" => serde_json::to_value(shared.statistics()).unwrap_or_default(),
        "stop" => {
            let told = status();
            shared.stop();
            told
        }
        other => json!({
            "error": format!("no command is called {other:?}: use cut, restore, status, stats or stop"),
        }),
    }
}
