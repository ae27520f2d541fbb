//! Planted faults are found, and told in words.

use device::{Admission, AdmissionEntry, AdmissionView, OWN_ADMISSIONS};
use ftl::wear::{OWN_WEAR_LEVELING, WearEntry, WearLeveling, WearView};
use ftl::{Features, Flash, Ftl, FtlEntry, FtlError, Table, Value, VirtualPage, find_ftl};
use nand::Chip;
use policy_check::{Broken, Effort, LayerCheck, check_admission, check_layer, check_scheduler};
use sched::{Links, List, Queue, RequestId, Scheduler, SchedulerEntry};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

const EFFORT: Effort = Effort { sequences: 60, operations: 120, seed: 1 };

/// What is wrong with a [`FaultyLayer`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// A write returns before its page is programmed.
    Early,
    /// A trimmed page reads zeros after one power cut, and its data after the next one.
    Revives,
    /// What it writes depends on how many objects the process has made.
    Unsteady,
}

/// Objects that were made of one kind, which no policy may look at.
static LAYERS_MADE: AtomicU32 = AtomicU32::new(0);
static WEAR_MADE: AtomicU32 = AtomicU32::new(0);
static ADMISSIONS_MADE: AtomicU32 = AtomicU32::new(0);

/// Page mapping with a fault.
struct FaultyLayer {
    inner: Box<dyn Ftl>,
    fault: Fault,
    held: Option<(u32, Vec<u8>)>,
    /// Trimmed pages, and the power cuts since.
    trimmed: BTreeMap<u32, u32>,
    number: u32,
}

impl FaultyLayer {
    fn program_held(&mut self) -> Result<(), FtlError> {
        match self.held.take() {
            Some((lpn, bytes)) => self.inner.write(lpn, Some(&bytes)),
            None => Ok(()),
        }
    }
}

impl Ftl for FaultyLayer {
    fn logical_pages(&self) -> u32 {
        self.inner.logical_pages()
    }

    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        match (data, &self.held) {
            (Some(data), Some((held, bytes))) if *held == lpn => data.copy_from_slice(bytes),
            (Some(data), _) if self.trimmed.get(&lpn).is_some_and(|cuts| *cuts < 2) => data.fill(0),
            (data, _) => self.inner.read(lpn, data)?,
        }
        Ok(())
    }

    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        self.trimmed.remove(&lpn);
        match self.fault {
            Fault::Early => {
                self.program_held()?;
                self.held = data.map(|data| (lpn, data.to_vec()));
                Ok(())
            }
            // Only one of the layers that are compared writes a page twice.
            Fault::Unsteady if self.number.is_multiple_of(2) && lpn == 0 => {
                self.inner.write(lpn, data)?;
                self.inner.write(lpn, data)
            }
            _ => self.inner.write(lpn, data),
        }
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        match self.fault {
            Fault::Revives => _ = self.trimmed.insert(lpn, 0),
            _ => self.inner.trim(lpn)?,
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FtlError> {
        self.program_held()?;
        self.inner.flush()
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        self.held = None;
        self.inner.rebuild()?;
        self.trimmed.values_mut().for_each(|cuts| *cuts += 1);
        Ok(())
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        self.inner.locate(lpn)
    }

    fn ram_bytes(&self) -> u64 {
        self.inner.ram_bytes()
    }

    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }

    fn flash(&self) -> &Flash {
        self.inner.flash()
    }

    fn flash_mut(&mut self) -> &mut Flash {
        self.inner.flash_mut()
    }

    fn into_chip(self: Box<Self>) -> Chip {
        self.inner.into_chip()
    }

    fn clone_box(&self) -> Box<dyn Ftl> {
        unreachable!("the check copies no layer")
    }
}

fn broken_layer(fault: Fault) -> Broken {
    let page = find_ftl("page").expect("in the table");
    let entry = FtlEntry {
        name: "faulty",
        summary: "page mapping with a fault",
        source: "this test",
        features: Features { mapping: "", first_write: "", overwrite: "", block_kinds: "" },
        parameters: page.parameters,
        blocks_required: page.blocks_required,
        maps_parts: false,
        check: page.check,
        predicted_waf: None,
        build: Box::leak(Box::new(move |flash, logical_pages, settings: &_| -> Box<dyn Ftl> {
            let page = find_ftl("page").expect("in the table");
            Box::new(FaultyLayer {
                inner: (page.build)(flash, logical_pages, settings),
                fault,
                held: None,
                trimmed: BTreeMap::new(),
                number: LAYERS_MADE
                    .fetch_add(u32::from(fault == Fault::Unsteady), Ordering::Relaxed),
            })
        })),
    };
    let check = LayerCheck { entry: &entry, given: BTreeMap::new() };
    check_layer(&check, EFFORT, &mut |_, _| {}).expect_err("the fault is found")
}

#[test]
fn a_layer_that_acknowledges_before_it_programs_is_found() {
    let broken = broken_layer(Fault::Early);
    assert!(broken.what.contains("was acknowledged"), "{broken:#?}");
    let has = |word| broken.operations.iter().any(|operation| operation.contains(word));
    assert!(has("write") && has("the power will fail"), "{broken:#?}");
    assert!(broken.operations.len() <= 4, "{broken:#?}");
}

#[test]
fn a_layer_that_revives_a_trimmed_page_is_found() {
    let broken = broken_layer(Fault::Revives);
    assert!(broken.what.contains("though zeros was acknowledged"), "{broken:#?}");
    let cuts = broken.operations.iter().filter(|operation| operation.contains("power")).count();
    assert_eq!(cuts, 2, "{broken:#?}");
}

#[test]
fn a_layer_that_does_not_repeat_itself_is_found() {
    let broken = broken_layer(Fault::Unsteady);
    assert!(broken.what.contains("the second time"), "{broken:#?}");
    assert_eq!(broken.operations, ["write 0"]);
}

/// First in, first out, but for every fifth request, which it forgets.
#[derive(Default)]
struct Losing {
    list: List,
    links: Links,
    inserted: u32,
    lost: usize,
}

impl Scheduler for Losing {
    fn insert(&mut self, _: u64, id: RequestId, _: &mut Queue) {
        self.inserted += 1;
        if self.inserted.is_multiple_of(5) {
            self.lost += 1;
        } else {
            self.list.push_back(&mut self.links, id);
        }
    }

    fn dispatch(&mut self, _: u64, _: bool, queue: &mut Queue) -> u32 {
        let Some(id) = self.list.pop_front(&mut self.links) else { return 0 };
        queue.dispatch_sort(id);
        1
    }

    fn queued(&self) -> usize {
        self.list.len() + self.lost
    }

    fn absorb(&mut self, _: u64, _: RequestId, absorbed: RequestId, _: &mut Queue) {
        self.list.remove(&mut self.links, absorbed);
    }

    fn state_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

#[test]
fn a_scheduler_that_loses_a_request_is_found() {
    let entry = SchedulerEntry {
        name: "losing",
        aliases: &[],
        summary: "first in, first out, with a fault",
        source: "this test",
        parameters: &[],
        build: &|_, _| Box::new(Losing::default()),
    };
    let broken = check_scheduler(&entry, EFFORT, &mut |_, _| {}).expect_err("it is found");
    assert!(broken.what.contains("were never dispatched"), "{broken:#?}");
    assert!(broken.operations.len() >= 5, "{broken:#?}");
}

/// Takes the first free block, or the last one in every second object.
struct UnsteadyWear(bool);

impl WearLeveling for UnsteadyWear {
    fn allocate(&mut self, view: &WearView) -> u32 {
        view.free[if self.0 { view.free.len() - 1 } else { 0 }]
    }

    fn level(&mut self, _: &WearView) -> Option<(u32, u32)> {
        None
    }

    fn interval_erases(&self) -> Option<u64> {
        None
    }

    fn clone_box(&self) -> Box<dyn WearLeveling> {
        unreachable!("the check copies no flash")
    }
}

/// Levels at every erase: the first block with data goes to the last free one.
struct EagerWear;

impl WearLeveling for EagerWear {
    fn allocate(&mut self, view: &WearView) -> u32 {
        view.free[0]
    }

    fn level(&mut self, view: &WearView) -> Option<(u32, u32)> {
        Some((view.used[0], *view.free.last()?))
    }

    fn interval_erases(&self) -> Option<u64> {
        Some(1)
    }

    fn clone_box(&self) -> Box<dyn WearLeveling> {
        unreachable!("the check copies no flash")
    }
}

static WEAR: [WearEntry; 2] = [
    WearEntry {
        name: "unsteady",
        build: &|_| {
            Box::new(UnsteadyWear(WEAR_MADE.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)))
        },
    },
    WearEntry { name: "eager", build: &|_| Box::new(EagerWear) },
];

fn check_wear(row: &'static WearEntry, layer: &str) -> Result<policy_check::Checked, Broken> {
    OWN_WEAR_LEVELING.put(row.name, row);
    let given = BTreeMap::from([("wear_leveling".to_owned(), Value::Word(row.name.to_owned()))]);
    let entry = find_ftl(layer).expect("in the table");
    check_layer(&LayerCheck { entry, given }, EFFORT, &mut |_, _| {})
}

#[test]
fn a_way_of_wear_levelling_that_does_not_repeat_itself_is_found() {
    let broken = check_wear(&WEAR[0], "page").expect_err("it is found");
    assert!(broken.what.contains("the second time"), "{broken:#?}");
}

#[test]
fn data_that_moves_at_every_erase_is_kept_by_every_layer() {
    for layer in ftl::FTLS {
        let checked = check_wear(&WEAR[1], layer.name);
        let checked = checked.unwrap_or_else(|broken| panic!("{}: {broken:#?}", layer.name));
        let moved = checked.iter().find(|(what, _)| what.contains("level wear")).expect("told").1;
        assert!(moved > 500, "{}: {checked:?}", layer.name);
    }
}

/// Admits every second write, and begins with the first or with the second one.
struct Alternating {
    admits: bool,
    copies_right: bool,
}

impl Admission for Alternating {
    fn admits(&mut self, _: &AdmissionView) -> bool {
        self.admits = !self.admits;
        self.admits
    }

    fn clone_box(&self) -> Box<dyn Admission> {
        let admits = self.copies_right && self.admits;
        Box::new(Self { admits, copies_right: self.copies_right })
    }
}

static ADMISSIONS: [AdmissionEntry; 3] = [
    AdmissionEntry {
        name: "steady",
        build: &|_| Box::new(Alternating { admits: false, copies_right: true }),
    },
    AdmissionEntry {
        name: "forgetful",
        build: &|_| Box::new(Alternating { admits: false, copies_right: false }),
    },
    AdmissionEntry {
        name: "changing",
        build: &|_| {
            let admits = ADMISSIONS_MADE.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            Box::new(Alternating { admits, copies_right: true })
        },
    },
];

#[test]
fn admission_is_checked_for_repeating_itself_and_for_copies() {
    for row in &ADMISSIONS {
        OWN_ADMISSIONS.put(row.name, row);
    }
    let check = |name| check_admission(name, EFFORT, &mut |_, _| {});
    for name in ["all", "steady"] {
        let checked = check(name).unwrap_or_else(|broken| panic!("{name}: {broken:#?}"));
        let count = |what| checked.iter().find(|(told, _)| *told == what).expect("told").1;
        assert!(count("power cuts") > 200, "{checked:?}");
        let share = if name == "all" { 1 } else { 2 };
        assert!(count("writes").abs_diff(count("writes admitted") * share) < 200, "{checked:?}");
    }
    let broken = check("forgetful").expect_err("it is found");
    assert!(broken.what.contains("by a copy of the object"), "{broken:#?}");
    let broken = check("changing").expect_err("it is found");
    assert!(broken.what.contains("the second time"), "{broken:#?}");
    assert!(broken.operations.len() <= 2, "{broken:#?}");
    let broken = check("unknown").expect_err("it is refused");
    assert!(broken.what.contains("cache.admission must be"), "{broken:#?}");
}
