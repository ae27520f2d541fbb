//! Processes of a script that run side by side.

use crate::place::Place;
use crate::run::Runner;
use crate::run_error::{Failed, RunError};
use crate::step::Step;
use crate::tree::Command;
use crate::walk::{Event, Walk};
use fs_api::FileSystem;
use process::Process;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;

/// Who learns of the commands that processes carry out.
pub trait Observer {
    /// A command begins; false ends all processes.
    fn begins(&self, command: &Command) -> bool;

    /// A call of the process of that number ended that began at `start_ns` of simulated time: as its line
    /// expects, with the failure that `try` reports, or otherwise. False ends all processes.
    fn ends(
        &self,
        process: u32,
        place: &Place,
        start_ns: u64,
        end: Result<Option<RunError>, Failed>,
    ) -> bool;
}

impl<F: FileSystem + 'static> Runner<F> {
    /// Runs processes side by side, each with no open file, and waits for all of them.
    ///
    /// Simulated time decides which one goes on. Those whose clocks read the same take turns after each call, in
    /// the order of the block. False if the observer ended them.
    pub async fn run_processes(&self, walks: Vec<Walk>, observer: Rc<dyn Observer>) -> bool {
        let mut running = Vec::new();
        for walk in walks {
            // Schedulers and process groups tell processes apart by their numbers, so each has its own.
            let number = self.machine.next_pid.get();
            self.machine.next_pid.set(number + 1);
            let child =
                Self { machine: self.machine.clone(), files: RefCell::new(BTreeMap::new()) };
            let watched = observer.clone();
            // Boxed, for a process may have processes of its own.
            let play: Pin<Box<dyn Future<Output = bool>>> =
                Box::pin(async move { child.play(number, walk, watched).await });
            let name = format!("process {number} of the script");
            running.push(self.machine.sim.spawn_as(Process::new(number), name, play));
        }
        // All are waited for, also behind a failure: none may run on beside what follows.
        let mut all = true;
        // All are waited for, also after one has ended the run: none may go on behind the next line.
        for process in running {
            all &= process.await;
        }
        all
    }

    /// Carries a walk out to its end; false if the observer ended it.
    async fn play(&self, number: u32, mut walk: Walk, observer: Rc<dyn Observer>) -> bool {
        let goes_on = self.play_lines(number, &mut walk, &observer).await;
        // As the kernel does at the end of a process, which nobody asks for errors.
        let _ = self.close_all().await;
        goes_on
    }

    async fn play_lines(&self, number: u32, walk: &mut Walk, observer: &Rc<dyn Observer>) -> bool {
        loop {
            let event = match walk.next(self.clock_ns()) {
                Ok(Some(event)) => event,
                Ok(None) => return true,
                Err(error) => {
                    let place = Place { passes: walk.passes(), ..Place::of_line(error.line) };
                    let now_ns = self.machine.sim.now();
                    return observer.ends(number, &place, now_ns, Err(Failed::Line(error)));
                }
            };
            let goes_on = match event {
                Event::Wait(until_ns) => {
                    self.wait_until(until_ns).await;
                    true
                }
                Event::Processes(_, walks) => self.run_processes(walks, observer.clone()).await,
                Event::Command(command) => self.play_command(number, &command, observer).await,
            };
            if !goes_on {
                return false;
            }
        }
    }

    async fn play_command(
        &self,
        number: u32,
        command: &Command,
        observer: &Rc<dyn Observer>,
    ) -> bool {
        // A sleeping process lets the others go on.
        let is_call = !matches!(command.step, Step::Sleep { .. });
        let turn = match &self.machine.turn {
            Some(turn) if is_call => Some(turn.lock().await),
            _ => None,
        };
        if !observer.begins(command) {
            return false;
        }
        // Behind the turn, so that what another process made it wait for is not its own time.
        let start_ns = self.machine.sim.now();
        let end = self.carry_out(command).await;
        // A sleep is no call: it begins within calls of others, and ends within them.
        let goes_on = !is_call || observer.ends(number, &command.place, start_ns, end);
        drop(turn);
        // Where calls take no time, one process would come to its end before the next one begins.
        self.machine.sim.yield_now().await;
        goes_on
    }
}
