//! How a script mounts: options of its mount lines are honoured at every mount, those after a cut
//! included, or the script is refused before anything runs.

use crate::error::CrashError;
use mount::{Kind, MountError, MountRequest};
use script::{Command, ControlLine, Given, Order, Place, Script, Step};

/// The one way in which a script mounts.
#[derive(Clone, Debug)]
pub(crate) struct MountWay {
    /// What every mount is asked for.
    pub(crate) request: MountRequest,
    /// The line that says so; none if the script has no mount line.
    place: Option<Place>,
}

impl MountWay {
    /// The way of a script, whose order makes sense on a chip of so many blocks.
    ///
    /// # Errors
    /// [`CrashError::Line`]: a line that mounts otherwise than the first mount line, or that cannot be
    /// carried out where it stands.
    pub(crate) fn of(
        script: &Script,
        kind: &'static Kind,
        base: &MountRequest,
        blocks: u32,
    ) -> Result<Self, CrashError> {
        let mut way = Self { request: base.clone(), place: None };
        let mut order = Order::new(Some(Given { name: kind.name, is_over_ubi: kind.is_over_ubi }));
        let given = Step::Control(ControlLine::MountGiven { blocks: None });
        if !begins_unmounted(script) {
            // Such a script finds a mounted file system.
            // The order of a script's lines asks for a mount first, which was made before the first
            // line here.
            order.step(&given).expect("the first mount of a chip");
        }
        script.survey(&mut order, &mut |order, command| {
            let failed = |reason| CrashError::Line { place: command.place.clone(), reason };
            way.check(command, kind, base, blocks).map_err(failed)?;
            // The device is attached and has its volume before the first line, which the order of a
            // script of `nandlab script` would ask lines for.
            let step = if is_mount(command) { &given } else { &command.step };
            order.step(step).map_err(failed)
        })?;
        Ok(way)
    }

    fn check(
        &mut self,
        command: &Command,
        kind: &'static Kind,
        base: &MountRequest,
        blocks: u32,
    ) -> Result<(), String> {
        let Step::Control(line) = &command.step else { return Ok(()) };
        let mut request = base.clone();
        match line {
            ControlLine::Mount { file_system, .. } if file_system != kind.name => {
                return Err(format!(
                    // The table of guarantees is chosen by `--fs`, so another file system cannot be
                    // judged.
                    "the script mounts {file_system}, and --fs is {}: give --fs {file_system}, or write \
                     `mount -`",
                    kind.name
                ));
            }
            ControlLine::Mount { source, options, .. } => {
                kind.check_source(source)?;
                check_options(options)?;
                request.options.extend_from_slice(options);
                request.ubi.volume = source.strip_prefix("ubi0:").map(str::to_owned);
            }
            ControlLine::MountGiven { blocks: Some(asked) } if *asked != blocks => {
                return Err(format!(
                    "the script wants {asked} blocks, but the chip has {blocks}: give --blocks {asked}"
                ));
            }
            ControlLine::MountGiven { .. } => {}
            ControlLine::Log(_)
            | ControlLine::Workload(_)
            | ControlLine::Phase(_)
            | ControlLine::End
            | ControlLine::DropCaches
            | ControlLine::Settle { .. }
            | ControlLine::AtRest(_)
            // Such lines would exchange the chip whose operations are in the journal.
            | ControlLine::Unmount => return Ok(()),
            line if line.is_aging() => {
                return Err("cuts are made on a chip without bit errors: leave `age`, `wear` and \
                            `scrub` out"
                    .into());
            }
            _ => {
                return Err(
                    "a script whose power is cut at every operation keeps its chip, which is attached \
                     before the first line: leave `powercut`, `snap`, `save`, `load` and `cmd` out"
                        .into(),
                );
            }
        }
        self.mounts_so(&command.place, request)
    }

    /// A mount line: the first one sets volume and options, and the others must have the same.
    fn mounts_so(&mut self, place: &Place, request: MountRequest) -> Result<(), String> {
        let Some(first) = &self.place else {
            *self = Self { request, place: Some(place.clone()) };
            return Ok(());
        };
        // Profiles and drivers come from the command line and are the same for all mounts.
        let same = |request: &MountRequest| (request.options.clone(), request.ubi.volume.clone());
        if same(&request) == same(&self.request) {
            return Ok(());
        }
        Err(format!(
            "the script mounts otherwise here than in line {first}, and the mount after a cut is made in \
             one way: give both lines the same volume and options"
        ))
    }

    /// A mount was refused: the line that asked for it is to blame, if one did.
    pub(crate) fn refused(&self, error: MountError) -> CrashError {
        match &self.place {
            Some(place) => CrashError::Line { place: place.clone(), reason: error.to_string() },
            None => error.into(),
        }
    }
}

fn is_mount(command: &Command) -> bool {
    matches!(
        command.step,
        Step::Control(ControlLine::Mount { .. } | ControlLine::MountGiven { .. })
    )
}

/// True if a mount line comes before all calls and before `umount`.
fn begins_unmounted(script: &Script) -> bool {
    let mut needing_or_mounting = script.samples().filter(|command| match &command.step {
        Step::Control(ControlLine::Unmount) => true,
        Step::Control(_) => is_mount(command),
        _ => true,
    });
    needing_or_mounting.next().is_some_and(|command| is_mount(&command))
}

fn check_options(options: &[String]) -> Result<(), String> {
    if options.iter().any(String::is_empty) {
        return Err("an option is empty: divide options by one comma, or write `-`".into());
    }
    if options.iter().any(|option| option == "ro") {
        return Err("a mount with `ro` changes nothing that could be cut: leave `ro` out".into());
    }
    Ok(())
}
