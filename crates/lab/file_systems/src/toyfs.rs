//! The toy in the table of file systems: all that a new one has to bring.

use fs_api::{DynFileSystem, Errno, FileSystem, Memory};
use mount::guarantee::{ALL_TORN, Durable, ExpectedFinding, Guarantee, Order};
use mount::{
    BlockPath, Call, Counter, Finding, ImageForm, ImageMedium, ImageSupport, KernelMount,
    KernelSource, Kind, MTDBLOCK, Machine, MountError, MountRequest, MountedFileSystem, Place,
    SharedMount, StillData,
};
use page_cache::PageCache;
use std::any::Any;
use std::rc::Rc;
use toyfs::{FindingCode as Code, Snapshot, Toyfs};

pub(crate) const KIND: Kind = Kind {
    name: "toyfs",
    summary: "a toy: each sync writes the whole tree",
    is_shown: false,
    has_owners_and_links: true,
    is_on_block_device: false,
    usual_block_device: MTDBLOCK,
    has_cleaner: false,
    // No kernel has it; it is the same under the page cache of each that is modelled.
    profiles: &["linux-6.12", "linux-6.1", "linux-2.6.35", "linux-2.6.29"],
    is_over_ubi: false,
    kernel: KernelMount { type_name: "toyfs", source: KernelSource::Mtd, options: "ro, rw" },
    images_instead: None,
    own_images: Some(&ToyImages),
    guarantee: Some(&GUARANTEE),
    mount: |machine, request| Box::pin(mount(machine, request)),
};

/// What survives a power cut.
const GUARANTEE: Guarantee = Guarantee {
    kind: "toyfs",
    durable: Durable::AtSync,
    // The whole tree at once: the state at the last sync, or at one that the cut interrupted.
    order: Order::Calls,
    order_of_torn_page: Order::Calls,
    renames_in_two_steps: false,
    is_made_in_steps: false,
    new_attribute_is_synced: false,
    keeps_modes: true,
    empties_before_unlink: &[],
    safe: "all that was done before any fsync, sync or umount",
    new_file: "safe with its name",
    beyond: "the state at the sync that was cut",
    beyond_torn_page: "the same: the checksum of a torn snapshot is wrong",
    expected_findings: &[ExpectedFinding { code: Code::TornSnapshot.name(), torn: ALL_TORN }],
    hazards: &[],
};

/// A mounted toy file system, as the layer above holds it.
struct ToyMount(Toyfs);

impl MountedFileSystem for ToyMount {
    fn file_system(&self) -> &DynFileSystem<'_> {
        DynFileSystem::from_ref(&self.0)
    }

    fn has_page_cache(&self) -> bool {
        true
    }

    fn block_path(&self) -> Option<&BlockPath> {
        None
    }

    fn page_cache(&self) -> Option<Rc<PageCache>> {
        None
    }

    fn has_bounded_root(&self) -> bool {
        false
    }

    fn protection_period_s(&self) -> Option<u64> {
        None
    }

    fn still_data(&self) -> StillData {
        StillData::Stays
    }

    fn statistics(&self) -> Call<'_, Vec<Counter>> {
        let written = Counter::new("snapshots_written", self.0.snapshots_written(), "snapshots");
        Box::pin(async move { vec![written] })
    }

    fn findings(&self) -> Call<'_, Vec<Finding>> {
        Box::pin(async { self.0.findings() })
    }

    fn check(&self) -> Call<'_, Result<Vec<Finding>, Errno>> {
        // It keeps nothing twice that could contradict itself.
        Box::pin(async { Ok(Vec::new()) })
    }

    fn unmount(&self) -> Call<'_, Result<(), Errno>> {
        Box::pin(self.0.unmount())
    }

    fn shrink(&self) -> Call<'_, u64> {
        Box::pin(self.0.shrink())
    }

    fn memory(&self) -> Memory {
        self.0.memory()
    }

    fn counts_inodes(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

async fn mount(machine: &Machine, request: &MountRequest) -> Result<SharedMount, MountError> {
    KIND.profile(request.profile.as_deref())?;
    let mut is_read_only = false;
    for option in &request.options {
        match option.as_str() {
            "ro" => is_read_only = true,
            "rw" => is_read_only = false,
            _ => return Err(KIND.unknown_option(option)),
        }
    }
    let mounted = Toyfs::mount(machine.mtd.clone(), &machine.root(), is_read_only).await;
    Ok(SharedMount::new(ToyMount(mounted)))
}

/// Images of it: dumps of chips whose first blocks begin with a snapshot.
#[derive(Debug)]
struct ToyImages;

impl ImageSupport for ToyImages {
    fn forms(&self) -> &'static [ImageForm] {
        &[ImageForm { has_oob: true, layout: "linux-large-no-ecc", layout_with_ecc: "linux-large" }]
    }

    fn share(
        &self,
        pages: &mut dyn Iterator<Item = (&[u8], &[u8])>,
        _pages_per_block: usize,
    ) -> f64 {
        // A header in the first page speaks for the whole image; the other half may be blank.
        let begins =
            pages.next().is_some_and(|(data, _)| data.starts_with(&toyfs::MAGIC.to_le_bytes()));
        if begins { 1.0 } else { 0.0 }
    }

    fn check_medium(&self, medium: &ImageMedium<'_>) -> (Vec<Finding>, Vec<Counter>) {
        let (mut findings, mut whole) = (Vec::new(), 0);
        for number in 0..2 {
            let blocks = (number..medium.blocks).step_by(2);
            let bytes: Vec<u8> = blocks.filter_map(|block| medium.block(block)).flatten().collect();
            match Snapshot::parse(&bytes) {
                Snapshot::None => {}
                Snapshot::Torn => findings.push(
                    Code::TornSnapshot
                        .at(Place::Block(number.into()), "the snapshot that begins here is torn"),
                ),
                Snapshot::Whole(..) => whole += 1,
            }
        }
        (findings, vec![Counter::new("snapshots", whole, "snapshots")])
    }
}
