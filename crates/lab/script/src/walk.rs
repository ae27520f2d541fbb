//! Walking through a script, one command after the other, without ever listing them.

use crate::place::{Pass, Place, ScriptError};
use crate::step::{ControlLine, Step};
use crate::tree::{Block, Bound, Command, Line, Node, Script};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;
/// Passes that are looked at one by one to count commands; of more of them the last one stands for all.
const COUNTED_PASSES_MAX: u64 = 1_000_000;

/// What a walk comes to.
#[derive(Debug)]
pub enum Event {
    /// A command is to be carried out.
    Command(Box<Command>),
    /// Nothing is to be done before this time of the script's clock, in nanoseconds: the walk goes on then.
    Wait(u64),
    /// These processes run side by side until all of them have ended; the walk goes on then.
    Processes(Place, Vec<Walk>),
}

/// How late the passes of an `every` began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// The block in the source.
    pub place: Place,
    /// Passes that began.
    pub passes: u64,
    /// Those of them that began late, because the pass before them was not over.
    pub late: u64,
    /// The longest that a pass began late, nanoseconds.
    pub worst_ns: u64,
}

impl Lateness {
    /// One sentence for a user; nothing if no pass was late.
    pub fn text(&self) -> Option<String> {
        let Self { passes, late, worst_ns, .. } = self;
        // Rounded up, so that what was late is never shown as 0 ms.
        let worst_ms = worst_ns.div_ceil(NANOSECONDS_PER_MILLISECOND);
        (*late > 0).then(|| {
            format!(
                "{late} of {passes} passes began late, by {worst_ms} ms at most: the lines take \
                     longer than the period"
            )
        })
    }
}

type AllLateness = Rc<RefCell<BTreeMap<(usize, usize), Lateness>>>;

/// A walk through a script. It holds the way from the root of the tree to where it stands.
#[derive(Clone, Debug)]
pub struct Walk {
    frames: Vec<Frame>,
    late: AllLateness,
    /// Passes of the blocks around the walk of a process.
    around: Vec<Pass>,
    /// Where the opening brace of the process stands; line 0 for the whole script.
    brace: Place,
}

/// Lines that are being walked through, and how often they still are.
#[derive(Clone, Debug)]
struct Frame {
    body: Arc<[Node]>,
    next: usize,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Once,
    Repeat {
        pass: u64,
        count: u64,
    },
    For {
        variable: Arc<str>,
        value: u64,
        last: u64,
    },
    Every {
        place: Place,
        pass: u64,
        count: u64,
        period_ns: u64,
        first_ns: Option<u64>,
        waits: bool,
    },
}

impl Frame {
    fn pass(&self) -> Option<Pass> {
        match &self.way {
            Way::Once => None,
            Way::Repeat { pass, .. } | Way::Every { pass, .. } => {
                Some(Pass { variable: None, number: *pass })
            }
            Way::For { variable, value, .. } => {
                Some(Pass { variable: Some(variable.clone()), number: *value })
            }
        }
    }

    /// Begins the next pass; false if there is none.
    fn begin_next(&mut self) -> bool {
        let goes_on = match &mut self.way {
            Way::Once => false,
            Way::Repeat { pass, count } => {
                *pass += 1;
                *pass <= *count
            }
            Way::For { value, last, .. } => {
                let goes_on = *value < *last;
                *value += u64::from(goes_on);
                goes_on
            }
            Way::Every { pass, count, waits, .. } => {
                *pass += 1;
                *waits = true;
                *pass <= *count
            }
        };
        // Also at the end, where the frame goes with the next step.
        self.next = 0;
        goes_on
    }
}

impl Walk {
    /// A walk through `nodes`, which stand in these passes.
    pub(crate) fn new(nodes: Arc<[Node]>, around: Vec<Pass>) -> Self {
        let frames = vec![Frame { body: nodes, next: 0, way: Way::Once }];
        Self { frames, late: Rc::default(), around, brace: Place::default() }
    }

    /// The next event when the script's clock reads `now_ns`; none at the end.
    ///
    /// # Errors
    /// The values of this pass make no line of the language.
    pub fn next(&mut self, now_ns: u64) -> Result<Option<Event>, ScriptError> {
        loop {
            // Blocks may hold nothing, and have any number of passes.
            cancellation::check();
            let Some(frame) = self.frames.last_mut() else { return Ok(None) };
            if let Some(until_ns) = begin_timed(frame, now_ns, &self.late) {
                return Ok(Some(Event::Wait(until_ns)));
            }
            let Some(node) = frame.body.get(frame.next).cloned() else {
                if !frame.begin_next() {
                    self.frames.pop();
                }
                continue;
            };
            // Before the node is looked at: a block is behind the walk once it was gone into.
            frame.next += 1;
            match node {
                Node::Line(line) => return self.command(&line).map(Some),
                Node::Block(block) => {
                    if let Some(event) = self.enter(&block) {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    /// Where the opening brace of the process stands that this walk is of; line 0 for the whole script.
    pub fn place(&self) -> &Place {
        &self.brace
    }

    /// How late the passes of each `every` began so far, in the order of the source.
    pub fn lateness(&self) -> Vec<Lateness> {
        self.late.borrow().values().cloned().collect()
    }

    /// Passes of the blocks around the process that this walk is of.
    pub fn passes(&self) -> Vec<Pass> {
        // The outermost first, as a reader of the source meets them.
        let own = self.frames.iter().filter_map(Frame::pass);
        self.around.iter().cloned().chain(own).collect()
    }

    fn command(&self, line: &Line) -> Result<Event, ScriptError> {
        Ok(Event::Command(Box::new(line.command(self.passes())?)))
    }

    /// Goes into a block; processes are left to whoever walks.
    fn enter(&mut self, block: &Block) -> Option<Event> {
        let passes = self.passes();
        let (body, way) = match block {
            Block::Repeat { count, body } => {
                let count = count.value(&passes).unwrap_or(0);
                (body, (count > 0).then_some(Way::Repeat { pass: 1, count }))
            }
            Block::For { variable, first, last, body } => {
                let range = first.value(&passes).zip(last.value(&passes));
                let way = range.filter(|(first, last)| first <= last).map(|(first, last)| {
                    Way::For { variable: variable.clone(), value: first, last }
                });
                (body, way)
            }
            Block::Every { place, period_ms, duration_ms, body } => {
                let place = place.clone();
                let period_ns = period_ms.saturating_mul(NANOSECONDS_PER_MILLISECOND);
                let (count, first_ns) = (duration_ms.div_ceil(*period_ms), None);
                (body, Some(Way::Every { place, pass: 1, count, period_ns, first_ns, waits: true }))
            }
            Block::Concurrent { place, processes } => {
                // One record of lateness for all: a user looks for the block, not for the process.
                let walks = processes.iter().map(|process| Self {
                    late: self.late.clone(),
                    brace: process.place.clone(),
                    ..Self::new(process.body.clone(), passes.clone())
                });
                let walks = walks.collect();
                return Some(Event::Processes(Place { passes, ..place.clone() }, walks));
            }
        };
        // Without a pass there is nothing to go into.
        if let Some(way) = way {
            self.frames.push(Frame { body: body.clone(), next: 0, way });
        }
        None
    }
}

/// Begins a pass of an `every`, if it is time; otherwise the time to wait for.
fn begin_timed(frame: &mut Frame, now_ns: u64, late: &AllLateness) -> Option<u64> {
    let Way::Every { place, pass, period_ns, first_ns, waits, .. } = &mut frame.way else {
        return None;
    };
    if !*waits {
        return None;
    }
    // The first pass begins at the next multiple, or now if the clock stands at one.
    let first_ns = *first_ns.get_or_insert(now_ns.div_ceil(*period_ns).saturating_mul(*period_ns));
    let due_ns = first_ns.saturating_add((*pass - 1).saturating_mul(*period_ns));
    if now_ns < due_ns {
        return Some(due_ns);
    }
    *waits = false;
    let mut all = late.borrow_mut();
    let key = (place.line, place.column);
    let own =
        all.entry(key).or_insert_with(|| Lateness { place: place.clone(), ..Lateness::default() });
    own.passes += 1;
    own.late += u64::from(now_ns > due_ns);
    own.worst_ns = own.worst_ns.max(now_ns - due_ns);
    None
}

/// How much there is to a script before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Commands that it carries out, those of all passes.
    pub commands: u64,
    /// What its `sleep`, `settle` and `every` wait, at least, milliseconds.
    pub wait_milliseconds: u64,
}

impl Extent {
    fn plus(self, other: Self) -> Self {
        Self {
            commands: self.commands.saturating_add(other.commands),
            wait_milliseconds: self.wait_milliseconds.saturating_add(other.wait_milliseconds),
        }
    }

    fn times(self, count: u64) -> Self {
        Self {
            commands: self.commands.saturating_mul(count),
            wait_milliseconds: self.wait_milliseconds.saturating_mul(count),
        }
    }
}

impl Script {
    /// How many commands a whole run carries out, and how long they wait.
    pub fn extent(&self) -> Extent {
        extent(&self.nodes, &mut Vec::new())
    }

    /// Every command in the order of one process, and without waiting: the processes of `concurrent` come one
    /// behind the other, and `every` at once. Values that make no line end it.
    pub fn commands(&self) -> impl Iterator<Item = Command> + use<> {
        let mut walks = vec![self.walk()];
        std::iter::from_fn(move || {
            loop {
                match walks.last_mut()?.next(u64::MAX) {
                    Ok(Some(Event::Command(command))) => return Some(*command),
                    Ok(Some(Event::Processes(_, processes))) => {
                        walks.extend(processes.into_iter().rev());
                    }
                    Ok(Some(Event::Wait(_)) | None) | Err(_) => drop(walks.pop()),
                }
            }
        })
    }

    /// Looks at the commands in the order in which they are carried out, with a state that they change. A block
    /// whose pass leaves the state as it was is left then: its other passes would do the same.
    ///
    /// # Errors
    /// The first of `visit`, and values that make no line.
    pub fn survey<S: Clone + PartialEq, E: From<ScriptError>>(
        &self,
        state: &mut S,
        visit: &mut impl FnMut(&mut S, &Command) -> Result<(), E>,
    ) -> Result<(), E> {
        survey(&self.nodes, &mut Vec::new(), state, visit)
    }
}

fn survey<S: Clone + PartialEq, E: From<ScriptError>>(
    nodes: &[Node],
    passes: &mut Vec<Pass>,
    state: &mut S,
    visit: &mut impl FnMut(&mut S, &Command) -> Result<(), E>,
) -> Result<(), E> {
    for node in nodes {
        let block = match node {
            Node::Line(line) => {
                visit(state, &line.command(passes.clone())?)?;
                continue;
            }
            Node::Block(block) => block,
        };
        if let Block::Concurrent { processes, .. } = &**block {
            for process in processes {
                survey(&process.body, passes, state, visit)?;
            }
            continue;
        }
        let (variable, first, last, body) = range_of(block, passes);
        // Asked once, not in each of a million passes.
        let differs = differs_by_pass(body);
        for number in first..=last {
            cancellation::check();
            let before = state.clone();
            passes.push(Pass { variable: variable.clone(), number });
            let visited = survey(body, passes, state, visit);
            passes.pop();
            visited?;
            if !differs && *state == before {
                break;
            }
        }
    }
    Ok(())
}

/// The numbers of the passes of a block that is no `concurrent`, and its lines.
fn range_of<'a>(
    block: &'a Block,
    passes: &[Pass],
) -> (Option<Arc<str>>, u64, u64, &'a Arc<[Node]>) {
    match block {
        Block::Repeat { count, body } => (None, 1, count.value(passes).unwrap_or(0), body),
        Block::For { variable, first, last, body } => {
            let range = first.value(passes).zip(last.value(passes));
            // No pass: a range that ends before it begins.
            let (first, last) = range.unwrap_or((1, 0));
            (Some(variable.clone()), first, last, body)
        }
        Block::Every { period_ms, duration_ms, body, .. } => {
            (None, 1, duration_ms.div_ceil(*period_ms), body)
        }
        Block::Concurrent { .. } => unreachable!("it has no passes"),
    }
}

/// True if the values of variables may change what a survey sees: control lines, times, numbers of passes.
fn differs_by_pass(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| match node {
        Node::Line(line) => {
            line.template.is_some() && matches!(line.step, Step::Control(_) | Step::Sleep { .. })
        }
        Node::Block(block) => {
            let has_variable = match &**block {
                Block::Repeat { count, .. } => !count.is_fixed(),
                Block::For { first, last, .. } => ![first, last].into_iter().all(Bound::is_fixed),
                Block::Every { .. } | Block::Concurrent { .. } => false,
            };
            has_variable || block.bodies().any(|body| differs_by_pass(body))
        }
    })
}

fn extent(nodes: &[Node], passes: &mut Vec<Pass>) -> Extent {
    let mut all = Extent::default();
    for node in nodes {
        let own = match node {
            Node::Line(line) => extent_of_line(line, passes),
            Node::Block(block) => extent_of_block(block, passes),
        };
        all = all.plus(own);
    }
    all
}

fn extent_of_line(line: &Line, passes: &[Pass]) -> Extent {
    let waits = |step: &Step| match step {
        Step::Sleep { milliseconds } | Step::Control(ControlLine::Settle { milliseconds }) => {
            *milliseconds
        }
        _ => 0,
    };
    // Only lines that wait are read for this pass; others wait for nothing in any pass.
    let wait_milliseconds = match &line.step {
        Step::Sleep { .. } | Step::Control(ControlLine::Settle { .. })
            if line.template.is_some() =>
        {
            line.command(passes.to_vec()).map_or(0, |command| waits(&command.step))
        }
        step => waits(step),
    };
    Extent { commands: 1, wait_milliseconds }
}

fn extent_of_block(block: &Block, passes: &mut Vec<Pass>) -> Extent {
    if let Block::Concurrent { processes, .. } = block {
        let bodies = processes.iter().map(|process| extent(&process.body, passes));
        let bodies: Vec<Extent> = bodies.collect();
        let wait_milliseconds = bodies.iter().map(|body| body.wait_milliseconds).max();
        let all = bodies.into_iter().fold(Extent::default(), Extent::plus);
        // Processes wait side by side.
        return Extent { wait_milliseconds: wait_milliseconds.unwrap_or(0), ..all };
    }
    // The number of passes in this pass of the blocks around, which may have variables for bounds.
    let (variable, first, last, body) = range_of(block, passes);
    let count = if first > last { 0 } else { (last - first).saturating_add(1) };
    let mut of_pass = |number: u64| {
        passes.push(Pass { variable: variable.clone(), number });
        let found = extent(body, passes);
        passes.pop();
        found
    };
    let all = if count == 0 {
        Extent::default()
    } else if differs_by_pass(body) && count <= COUNTED_PASSES_MAX {
        (first..=last).map(of_pass).fold(Extent::default(), Extent::plus)
    } else {
        of_pass(last).times(count)
    };
    match block {
        Block::Every { duration_ms, .. } => Extent {
            // The lines wait within the periods, unless they take longer.
            wait_milliseconds: all.wait_milliseconds.max(*duration_ms),
            ..all
        },
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::Event;
    use crate::{ScriptError, Step, parse};

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn passes_begin_at_multiples_and_late_ones_at_once() {
        let script = parse("every 10s for 45s {\nsync\n}\n").expect("a script");
        let mut walk = script.walk();
        let mut now_ns = 3 * SECOND_NS;
        let mut begins = Vec::new();
        while let Some(event) = walk.next(now_ns).expect("a walk") {
            match event {
                Event::Wait(until_ns) => now_ns = until_ns,
                Event::Command(_) => {
                    begins.push(now_ns / SECOND_NS);
                    // The second pass takes 25 seconds, the others one.
                    now_ns += if begins.len() == 2 { 25 } else { 1 } * SECOND_NS;
                }
                Event::Processes(..) => panic!("no processes"),
            }
        }
        assert_eq!(begins, [10, 20, 45, 46, 50]);
        let late = walk.lateness().remove(0);
        assert_eq!((late.passes, late.late, late.worst_ns), (5, 2, 15 * SECOND_NS));
        assert!(late.text().expect("late").starts_with("2 of 5 passes began late, by 15000 ms"));
    }

    #[test]
    fn a_survey_ends_with_the_first_pass_that_changes_nothing() {
        let script = parse("repeat 1000000000000 {\nsync\n}\nfor i in 1..5 {\nsleep ${i}s\n}\n");
        let (mut seen, mut waits) = (0, Vec::new());
        let survey = script.expect("a script").survey(&mut (), &mut |(), command| {
            seen += 1;
            if let Step::Sleep { milliseconds } = command.step {
                waits.push(milliseconds);
            }
            Ok::<_, ScriptError>(())
        });
        survey.expect("all lines");
        assert_eq!((seen, waits), (6, vec![1000, 2000, 3000, 4000, 5000]));
    }

    #[test]
    fn a_process_is_found_again_by_its_brace() {
        let text = "for i in 1..2 {\nconcurrent {\nunlink a$i\n}\n{\nunlink b$i\n}\n}\n";
        let script = parse(text).expect("a script");
        let mut walk = script.walk();
        let Some(Event::Processes(place, walks)) = walk.next(0).expect("a walk") else {
            panic!("processes")
        };
        assert_eq!((place.to_string().as_str(), walks.len()), ("2, i=1", 2));
        let mut second = script.process_at(5, 1, place.passes).expect("it is there");
        let Some(Event::Command(command)) = second.next(0).expect("a walk") else {
            panic!("a call")
        };
        assert_eq!(command.step, Step::Unlink { path: b"b1".to_vec() });
        assert!(script.process_at(4, 1, Vec::new()).is_none());
    }
}
