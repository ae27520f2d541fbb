//! `nandlab-ublk`: a simulated device as a block device of Linux.
//!
//! As `nandlab serve`, without a socket: the kernel's ublk driver hands the requests of /dev/ublkbN over. It takes root
//! and Linux 6.5 or later with the module ublk_drv (it has `UBLK_F_USER_COPY`). Commands come on standard input, a word a line: `cut`, `restore`,
//! `stats`, `stop`; each is answered with a line of JSON. SIGINT
//! and SIGTERM are `stop`.

mod control;
mod layout;
mod options;
mod queue;
mod target;

use control::Driver;
use layout::Control;
use options::Options;
use queue::{Arrival, Queue};
use serve::Core;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;
use target::Target;

/// Requests that the device has at once.
const DEPTH: u16 = 64;

/// How often commands are looked for.
const LOOK: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help") {
        println!("{}", options::HELP);
        return ExitCode::SUCCESS;
    }
    match Options::parse(&words).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(told) => {
            eprintln!("nandlab-ublk: {told}");
            ExitCode::from(2)
        }
    }
}

fn run(options: Options) -> Result<(), String> {
    let mut driver = Driver::open()?;
    let core = Core::new(&options.core)?;
    let sectors = core.size_bytes() / layout::SECTOR_BYTES as u64;
    let page_bytes = core.device().flash().map_or(4_096, |flash| flash.page_bytes);
    let ublk = |error: std::io::Error| format!("ublk: {error}");
    let device = driver.add(DEPTH).map_err(ublk)?;
    let served = (|| {
        let page_sectors = (page_bytes / layout::SECTOR_BYTES as u64) as u32;
        driver.set_parameters(device, sectors, page_sectors).map_err(ublk)?;
        let queue = Queue::open(device, DEPTH).map_err(ublk)?;
        serve(queue, Target::new(core, options.pace), device)
    })();
    let _ = driver.tell(Control::Stop, device);
    let deleted = driver.tell(Control::Delete, device).map_err(ublk);
    served.and(deleted)
}

/// Serves until the device is stopped.
fn serve(mut queue: Queue, mut target: Target, device: u32) -> Result<(), String> {
    // The kernel looks for partitions before the call returns, and that takes requests.
    let starting = thread::spawn(move || {
        let told = Driver::open().and_then(|mut driver| {
            driver.tell(Control::Start, device).map_err(|error| format!("ublk: {error}"))
        });
        if told.is_ok() {
            say(&format!("/dev/ublkb{device}"));
        }
        told
    });
    let mut starting = Some(starting);
    let commands = commands();
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&is_ended)).map_err(|error| error.to_string())?;
    }
    let mut arrivals = Vec::new();
    let mut gone = 0;
    while gone < DEPTH {
        queue.wait(target.idle(LOOK), &mut arrivals).map_err(|error| format!("ublk: {error}"))?;
        for arrival in arrivals.drain(..) {
            match arrival {
                Arrival::Request(tag, request) => target
                    .take(&queue, tag, &request)
                    .map_err(|error| format!("ublk: bytes of a request: {error}"))?,
                Arrival::Gone(_) => gone += 1,
            }
        }
        if gone == 0 {
            target.send(&mut queue).map_err(|error| format!("ublk: {error}"))?;
        }
        if let Some(thread) = starting.take_if(|thread| thread.is_finished()) {
            thread.join().map_err(|_| "the start of the device failed")??;
        }
        // Without this the driver would keep the device, and its file systems would wait for it for good.
        if is_ended.swap(false, Ordering::Relaxed) {
            obey("stop", &mut target, device);
        }
        match commands.try_recv() {
            Ok(command) => obey(&command, &mut target, device),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
    }
    Ok(())
}

/// Lines of standard input. At its end no command comes any more, and the device goes on.
fn commands() -> Receiver<String> {
    let (to, from) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if to.send(line.trim().to_owned()).is_err() {
                break;
            }
        }
    });
    from
}

fn obey(command: &str, target: &mut Target, device: u32) {
    let told = match command {
        "cut" => target.cut(),
        "restore" => target.restore(),
        "stats" => Ok(target.statistics()),
        "stop" => {
            // In another thread: the driver waits until the queue has given its tags back.
            thread::spawn(move || {
                if let Ok(mut driver) = Driver::open() {
                    let _ = driver.tell(Control::Stop, device);
                }
            });
            Ok("{}".into())
        }
        other => Err(format!("{other:?} is none of cut, restore, stats and stop")),
    };
    match told {
        Ok(answer) => say(&answer),
        Err(error) => say(&serde_json::json!({ "error": error }).to_string()),
    }
}

/// A line on standard output, at once.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever has closed it does not want to know.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
