//! Deterministic tasks over virtual nanoseconds.
//!
//! A [`Simulation`] runs asynchronous tasks on one thread. Its clock is a number that jumps from
//! one timer to the next; a run depends on the seed and on the order of spawning alone. Tasks
//! share a board's processors ([`Cpus`]) and meet at locks and queues in the shape of an operating
//! system's: [`Lock`], [`RwLock`], [`Semaphore`], [`WaitQueue`], [`Completion`], [`channel`].
//!
//! **Order.** Ready tasks run in the order in which they became ready. Timers of one instant fire
//! in the order in which they were armed, all of them before a task of that instant runs. Whatever
//! waits in a queue is served first come, first served; a task comes when its future is first
//! polled, not when the future is made.
//!
//! **Waking.** A task is woken by its number, which leaf futures of this crate leave with the
//! thing they wait for; the waker that `poll` receives does nothing. So every leaf future must
//! come from this crate. Combinators that poll all of their parts each time are fine; those that
//! wait for the waker of a part would sleep forever.
//!
//! **Cancellation.** Dropping a waiting future takes it out of its queue. What it was already
//! granted goes to the next in line.
//!
//! **Power cut.** After [`Sim::stop`] no task is polled again; all are dropped. Dropping releases
//! guards and queue places, which no task sees any more. A `Drop` outside this crate must not act
//! on what outlives the run, such as a medium; [`Sim::is_stopped`] tells it.
//!
//! ```
//! use sim::{Lock, RunEnd, Simulation};
//! use std::rc::Rc;
//!
//! let mut simulation = Simulation::new(1);
//! let sim = simulation.handle();
//! let counter = Rc::new(Lock::new(&sim, 0));
//! for _ in 0..3 {
//!     let (sim, counter) = (sim.clone(), counter.clone());
//!     simulation.handle().spawn(async move {
//!         let mut counter = counter.lock().await;
//!         sim.sleep(100).await;
//!         *counter += 1;
//!     });
//! }
//! assert_eq!(simulation.run(), RunEnd::Idle);
//! assert_eq!((sim.now(), *counter.try_lock().unwrap()), (300, 3));
//! ```

pub mod channel;
mod completion;
mod cpus;
mod executor;
mod gate;
mod lock;
mod rw_lock;
mod semaphore;
mod task;
mod timer;
mod wait_list;
mod wait_queue;
mod work;
mod work_watcher;

pub use completion::Completion;
pub use cpus::Cpus;
pub use executor::{RunEnd, Sim, Simulation, YieldNow};
pub use lock::{Lock, LockGuard};
pub use rw_lock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use task::JoinHandle;
pub use timer::{Fired, Sleep, Timer};
pub use wait_queue::{Wait, WaitQueue};
pub use work::Work;
pub use work_watcher::WorkWatcher;
