//! Translation layers of the user's own.
//!
//! The flash belongs to the adaptor, which lends it to Python for the length of a call: a layer that keeps
//! the object beyond it finds it empty. Every call on it is checked here, because the engine's own layers are
//! held to the rules of the chip by assertions of debug builds alone.

use super::object::{Own, OwnClass, leave};
use crate::{NandlabError, failed};
use ftl::{
    Features, Flash, Ftl, FtlEntry, FtlError, OWN_FTLS, OwnPolicyError, Settings, Table,
    VirtualPage,
};
use nand::{Chip, Geometry, NandError, Role};
use pyo3::create_exception;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

// No `Exception`: a layer that catches all of those must not go on without power.
create_exception!(
    nandlab.policy,
    PowerLost,
    PyBaseException,
    "The power of the chip failed in this operation. Let it pass."
);
create_exception!(
    nandlab.policy,
    DataLost,
    NandlabError,
    "A page cannot be read: its data was lost."
);
create_exception!(nandlab.policy, NoFreeBlock, NandlabError, "No block is free.");

/// The blocks of a chip, lent to a layer for one call.
///
/// Blocks are numbered virtually: bad blocks are replaced, and wear is levelled, behind the numbers.
#[pyclass(module = "nandlab.policy", name = "FlashBlocks")]
pub(crate) struct FlashBlocks {
    flash: Option<Box<Flash>>,
    /// Logical pages of the device.
    logical_pages: u32,
    /// Error of the engine that an exception stands for.
    failure: Option<FtlError>,
    /// What a policy below the layer broke: the run is left when the layer has returned.
    broken: Option<OwnPolicyError>,
}

impl FlashBlocks {
    fn flash(&self) -> PyResult<&Flash> {
        self.flash.as_deref().ok_or_else(kept)
    }

    fn flash_mut(&mut self) -> PyResult<&mut Flash> {
        self.flash.as_deref_mut().ok_or_else(kept)
    }

    /// An operation that may ask the policy that levels wear.
    fn operate<T>(&mut self, work: impl FnOnce(&mut Flash) -> Result<T, FtlError>) -> PyResult<T> {
        let flash = self.flash_mut()?;
        // No unwinding crosses the interpreter, which would take it for a defect of the engine.
        match catch_unwind(AssertUnwindSafe(|| work(flash))) {
            Ok(done) => done.map_err(|error| self.raise(error)),
            Err(reason) => match reason.downcast::<OwnPolicyError>() {
                Ok(error) => {
                    let told = failed(&error);
                    self.broken = Some(*error);
                    Err(told)
                }
                Err(other) => resume_unwind(other),
            },
        }
    }

    /// Turns an error of the engine into its exception, and remembers it.
    fn raise(&mut self, error: FtlError) -> PyErr {
        self.failure = Some(error);
        match error {
            FtlError::Nand(NandError::PowerLost) => PowerLost::new_err("the power failed"),
            FtlError::Lost { .. } => DataLost::new_err(error.to_string()),
            FtlError::NoFreeBlock => NoFreeBlock::new_err(error.to_string()),
            _ => failed(error),
        }
    }

    /// Checks that the block is one that a layer may use.
    fn check_block(&self, block: u32) -> PyResult<()> {
        let flash = self.flash()?;
        let blocks = flash.geometry().blocks;
        if block >= blocks {
            return Err(failed(format!("there is no block {block}: the chip has {blocks}")));
        }
        if !flash.is_in_use(block) {
            return Err(failed(format!("block {block} is not in use: take one by allocate()")));
        }
        Ok(())
    }

    fn check_page(&self, block: u32, page: u32) -> PyResult<VirtualPage> {
        self.check_block(block)?;
        let pages = self.flash()?.pages_per_block();
        if page >= pages {
            return Err(failed(format!("there is no page {page}: a block has {pages}")));
        }
        Ok(VirtualPage::new(block, page))
    }

    fn check_target(&self, block: u32, page: u32) -> PyResult<VirtualPage> {
        let at = self.check_page(block, page)?;
        let flash = self.flash()?;
        if flash.is_sealed(block) {
            return Err(failed(format!(
                "block {block} was partly programmed before a power cut: program no more pages of it"
            )));
        }
        if !flash.is_programmable(at) {
            return Err(failed(format!(
                "page {page} of block {block} cannot be programmed: it is programmed, or a later page is \
                 (next_page({block}) is {})",
                flash.next_page(block)
            )));
        }
        Ok(at)
    }

    fn check_source(&self, block: u32, page: u32, lpn: u32) -> PyResult<VirtualPage> {
        let at = self.check_page(block, page)?;
        let flash = self.flash()?;
        if !flash.is_programmed(at) {
            return Err(failed(format!(
                "page {page} of block {block} is erased: it holds nothing"
            )));
        }
        // A look at the spare area in memory, so that a check costs no operation of the chip and
        // changes no digest.
        let found = flash.peek(at).lpn();
        if found != lpn {
            return Err(failed(format!(
                "page {page} of block {block} holds logical page {found}, not {lpn}"
            )));
        }
        Ok(at)
    }
}

fn kept() -> PyErr {
    failed("the flash is lent for one call: use the one that the call hands over, and keep none")
}

#[pymethods]
impl FlashBlocks {
    /// Blocks of the chip, bad ones included.
    #[getter]
    fn blocks(&self) -> PyResult<u32> {
        Ok(self.flash()?.geometry().blocks)
    }

    /// Pages of a block.
    #[getter]
    fn pages_per_block(&self) -> PyResult<u32> {
        Ok(self.flash()?.pages_per_block())
    }

    /// Blocks that `allocate()` can give.
    #[getter]
    fn free_blocks(&self) -> PyResult<usize> {
        Ok(self.flash()?.free_blocks())
    }

    /// True if pages hold bytes; else only what lies where is known.
    #[getter]
    fn stores_bytes(&self) -> PyResult<bool> {
        Ok(self.flash()?.chip().stores_bytes())
    }

    /// Blocks that are neither free nor bad, in ascending order.
    fn blocks_in_use(&self) -> PyResult<Vec<u32>> {
        let flash = self.flash()?;
        Ok((0..flash.geometry().blocks).filter(|block| flash.is_in_use(*block)).collect())
    }

    /// Takes an erased block.
    fn allocate(&mut self) -> PyResult<u32> {
        self.operate(Flash::allocate)
    }

    /// Erases a block and gives it back.
    fn release(&mut self, block: u32) -> PyResult<()> {
        self.check_block(block)?;
        self.operate(|flash| flash.release(block))
    }

    /// The lowest page above all that are programmed; as many as a block has, if none can follow.
    fn next_page(&self, block: u32) -> PyResult<u32> {
        self.check_block(block)?;
        Ok(self.flash()?.next_page(block))
    }

    /// Programs a page with logical page `lpn`; the chip keeps that number in the spare area.
    #[pyo3(signature = (block, page, lpn, data=None))]
    fn program(&mut self, block: u32, page: u32, lpn: u32, data: Option<&[u8]>) -> PyResult<()> {
        let at = self.check_target(block, page)?;
        let pages = self.logical_pages;
        if lpn >= pages {
            return Err(failed(format!("there is no logical page {lpn}: the device has {pages}")));
        }
        if data.is_none() && self.flash()?.chip().stores_bytes() {
            return Err(failed(format!(
                "logical page {lpn} has no bytes: pass on what write() got"
            )));
        }
        let bytes = self.flash()?.geometry().page_data_bytes as usize;
        if let Some(data) = data
            && data.len() != bytes
        {
            return Err(failed(format!("{} bytes for a page of {bytes}", data.len())));
        }
        self.operate(|flash| flash.program(at, lpn, Role::Data, data))
    }

    /// Copies a page with its bytes: one page read and one page program.
    fn copy(
        &mut self,
        from_block: u32,
        from_page: u32,
        block: u32,
        page: u32,
        lpn: u32,
    ) -> PyResult<()> {
        let from = self.check_source(from_block, from_page, lpn)?;
        let to = self.check_target(block, page)?;
        if from_block == block {
            return Err(failed(format!("a copy leaves its block, and both are block {block}")));
        }
        self.operate(|flash| flash.copy(from, to, lpn, Role::Data))
    }

    /// Reads a page that holds `lpn`: its bytes, or None on a chip that stores none.
    fn read<'py>(
        &mut self,
        python: Python<'py>,
        block: u32,
        page: u32,
        lpn: u32,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let at = self.check_source(block, page, lpn)?;
        let flash = self.flash_mut()?;
        if !flash.chip().stores_bytes() {
            let done = flash.read(at, lpn, None);
            return done.map(|()| None).map_err(|error| self.raise(error));
        }
        let mut bytes = vec![0; flash.geometry().page_data_bytes as usize];
        let done = flash.read(at, lpn, Some(&mut bytes));
        done.map_err(|error| self.raise(error))?;
        Ok(Some(PyBytes::new(python, &bytes)))
    }

    /// Reads all spare areas, as after a power cut: (block, page, lpn, sequence) of each page with data.
    ///
    /// A higher sequence number was programmed later. Blocks without a programmed page are free then.
    fn scan(&mut self) -> PyResult<Vec<(u32, u32, u32, u64)>> {
        let scan = self.flash_mut()?.scan().map_err(|error| self.raise(error))?;
        let blocks = (0_u32..).zip(&scan.blocks);
        let pages = blocks.flat_map(|(block, pages)| {
            pages.tags().map(move |(page, tag)| (block, page, tag.lpn(), tag.sequence()))
        });
        Ok(pages.collect())
    }

    #[allow(clippy::unused_self, reason = "Python calls it on the object that is copied")]
    fn __deepcopy__(&self, _memo: Bound<'_, PyAny>) -> PyResult<Self> {
        Err(kept())
    }
}

/// Adds a class to the translation layers.
pub(super) fn register(name: String, class: &Bound<'_, PyType>) -> PyResult<()> {
    let python = class.py();
    let required = class.getattr("blocks_required")?.unbind();
    let class = OwnClass::new(name, class);
    let (own, summary) = (class.name, class.summary(python));
    let blocks_required = move |geometry: &Geometry, logical_pages: u32, _: &Settings| {
        Python::attach(|python| {
            let asked = required.call1(python, (geometry.pages_per_block, logical_pages));
            let asked = asked.and_then(|blocks| blocks.extract::<u32>(python));
            asked.unwrap_or_else(|error| leave(python, own, &error))
        })
    };
    let build = move |flash: Flash, logical_pages: u32, settings: &Settings| -> Box<dyn Ftl> {
        Box::new(OwnLayer::new(&class, flash, logical_pages, settings.seed()))
    };
    let entry = FtlEntry {
        name: own,
        summary,
        source: "a layer of your own",
        features: Features {
            mapping: "own",
            first_write: "own",
            overwrite: "own",
            block_kinds: "own",
        },
        parameters: &[],
        blocks_required: Box::leak(Box::new(blocks_required)),
        maps_parts: false,
        check: |_, _| Ok(()),
        predicted_waf: None,
        build: Box::leak(Box::new(build)),
    };
    OWN_FTLS.put(own, Box::leak(Box::new(entry)));
    Ok(())
}

struct OwnLayer {
    own: Own,
    /// Empty only while Python has it.
    flash: Option<Box<Flash>>,
    logical_pages: u32,
}

impl OwnLayer {
    fn new(class: &OwnClass, flash: Flash, logical_pages: u32, seed: u64) -> Self {
        Python::attach(|python| {
            let lent = FlashBlocks {
                flash: Some(Box::new(flash)),
                logical_pages,
                failure: None,
                broken: None,
            };
            let made =
                Bound::new(python, lent).unwrap_or_else(|error| leave(python, class.name, &error));
            let own = class.make(python, seed, (made.clone(), logical_pages));
            let flash = made.borrow_mut().flash.take();
            Self { own, flash, logical_pages }
        })
    }

    /// Calls a method with the flash, and takes the flash back.
    fn call<T>(
        &mut self,
        call: impl for<'py> FnOnce(
            &Bound<'py, PyAny>,
            &Bound<'py, FlashBlocks>,
        ) -> PyResult<Bound<'py, PyAny>>,
        answer: impl FnOnce(&Own, &Bound<'_, PyAny>) -> T,
    ) -> Result<T, FtlError> {
        Python::attach(|python| {
            let logical_pages = self.logical_pages;
            let flash = self.flash.take();
            let lent = FlashBlocks { flash, logical_pages, failure: None, broken: None };
            let lent = self.own.expect(python, Bound::new(python, lent));
            let outcome = call(self.own.bind(python), &lent);
            // Taken back whatever happened: a layer without its flash could not even be asked for
            // its counters.
            let (flash, failure, broken) = {
                let mut lent = lent.borrow_mut();
                (lent.flash.take(), lent.failure, lent.broken.take())
            };
            self.flash = flash;
            debug_assert!(self.flash.is_some(), "the flash is back after a call");
            // Whatever the layer made of it: the policy below it is wrong.
            if let Some(error) = broken {
                error.leave();
            }
            // Without power nothing that the layer says counts, even if it caught the exception.
            if let Some(error @ FtlError::Nand(NandError::PowerLost)) = failure {
                return Err(error);
            }
            match (outcome, failure) {
                (Ok(value), _) => Ok(answer(&self.own, &value)),
                // Data that is lost and a device that is full are answers of a layer; all else that
                // it raises is a defect of it.
                (Err(raised), Some(error)) if is_of_flash(python, &raised) => Err(error),
                (Err(raised), _) => leave(python, self.own.name, &raised),
            }
        })
    }

    fn check(&self, lpn: u32) -> Result<(), FtlError> {
        if lpn < self.logical_pages {
            return Ok(());
        }
        Err(FtlError::OutOfRange { lpn, logical_pages: self.logical_pages })
    }

    fn lent(&self) -> &Flash {
        self.flash.as_deref().expect("no call of Python is under way")
    }
}

fn is_of_flash(python: Python<'_>, raised: &PyErr) -> bool {
    raised.is_instance_of::<DataLost>(python) || raised.is_instance_of::<NoFreeBlock>(python)
}

impl Ftl for OwnLayer {
    fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        self.check(lpn)?;
        let wants_bytes = data.is_some() && self.lent().chip().stores_bytes();
        let found = self.call(
            |layer, flash| layer.call_method1("read", (flash, lpn)),
            |own, answer| {
                if !wants_bytes || answer.is_none() {
                    return None;
                }
                let Ok(bytes) = answer.extract::<Vec<u8>>() else {
                    own.broke(format!("read returned `{answer}`, not bytes or None"));
                };
                Some(bytes)
            },
        )?;
        if let Some(data) = data {
            match found {
                Some(bytes) if bytes.len() == data.len() => data.copy_from_slice(&bytes),
                Some(bytes) => self.own.broke(format!(
                    "read returned {} bytes of a page of {}",
                    bytes.len(),
                    data.len()
                )),
                // A page that was never written reads zeros.
                None => data.fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        self.check(lpn)?;
        self.call(
            |layer, flash| {
                let bytes = data.map(|data| PyBytes::new(layer.py(), data));
                layer.call_method1("write", (flash, lpn, bytes))
            },
            |_, _| (),
        )
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.check(lpn)?;
        self.call(|layer, flash| layer.call_method1("trim", (flash, lpn)), |_, _| ())
    }

    fn flush(&mut self) -> Result<(), FtlError> {
        self.call(|layer, flash| layer.call_method1("flush", (flash,)), |_, _| ())
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        self.call(|layer, flash| layer.call_method1("rebuild", (flash,)), |_, _| ())
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        let place = Python::attach(|python| {
            let place = self.own.bind(python).call_method1("locate", (lpn,));
            self.own.expect(python, place.and_then(|place| place.extract::<Option<(u32, u32)>>()))
        });
        let (block, page) = place?;
        let flash = self.lent();
        if block >= flash.geometry().blocks || page >= flash.pages_per_block() {
            self.own.broke(format!(
                "locate({lpn}) returned page {page} of block {block}, which there is not"
            ));
        }
        Some(VirtualPage::new(block, page))
    }

    fn ram_bytes(&self) -> u64 {
        Python::attach(|python| {
            let bytes = self.own.bind(python).call_method0("ram_bytes");
            self.own.expect(python, bytes.and_then(|bytes| bytes.extract()))
        })
    }

    // A layer in Python shows its tables where it is written.
    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }

    fn flash(&self) -> &Flash {
        self.lent()
    }

    fn flash_mut(&mut self) -> &mut Flash {
        self.flash.as_deref_mut().expect("no call of Python is under way")
    }

    fn into_chip(self: Box<Self>) -> Chip {
        self.flash.expect("no call of Python is under way").into_chip()
    }

    fn clone_box(&self) -> Box<dyn Ftl> {
        Box::new(Self {
            own: self.own.clone(),
            flash: self.flash.clone(),
            logical_pages: self.logical_pages,
        })
    }

    /// Checks what every layer keeps, in all builds: a layer of the user's own is what is in question.
    fn audit(&self) {
        let flash = self.lent();
        for lpn in 0..self.logical_pages {
            let Some(at) = self.locate(lpn) else { continue };
            let reason = if !flash.is_programmed(at) {
                "which is erased".to_owned()
            } else if flash.peek(at).lpn() != lpn {
                format!("which holds logical page {}", flash.peek(at).lpn())
            } else {
                continue;
            };
            OwnPolicyError {
                policy: self.own.name.to_owned(),
                reason: format!(
                    "locate({lpn}) returned page {} of block {}, {reason}",
                    at.page, at.block
                ),
            }
            .leave();
        }
    }
}
