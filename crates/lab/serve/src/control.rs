//! The control socket: a command a line, an answer of one line of JSON.
//!
//! | command | does | answers |
//! |---|---|---|
//! | `cut` | fails the supply now | the status |
//! | `restore` | gives it back | what the recovery took |
//! | `status` | nothing | the status |
//! | `stats` | nothing | requests, latencies and what the device did |
//! | `stop` | ends the server | the status |

use crate::questions::Questions;
use crate::shared::Shared;
use serde_json::{Value, json};

/// A command ends with its line; the longest has seven letters.
pub(crate) const COMMANDS: Questions = Questions {
    bytes_max: 64,
    is_whole: |question| question.contains(&b'\n'),
    answer: |shared, question| {
        let command = String::from_utf8_lossy(question);
        let mut line = answer(shared, command.trim()).to_string().into_bytes();
        line.push(b'\n');
        line
    },
};

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
