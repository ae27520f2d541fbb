//! A page of memory that is kept once, although the page cache, a file system and a medium have it.
//!
//! A kernel keeps such a page twice, in memory and on the medium. Here both are memory of the simulation, so
//! a page in memory whose bytes also stand on the medium need not hold them itself: the medium *lends* them.
//! Nothing of a run depends on which of them holds the bytes.

use std::cell::RefCell;
use std::rc::Rc;
use units::PAGE_BYTES;

/// A medium that holds the bytes of pages.
pub trait PageHolder {
    /// Copies the page at a place. It takes no simulated time and counts as no operation.
    ///
    /// # Panics
    /// If nothing is held there: a page is lent only while its place does not change.
    fn copy_page(&self, place: u64, into: &mut [u8; PAGE_BYTES]);
}

/// A page with its bytes, or with the place on a medium where they stand.
pub struct SharedPage(RefCell<Held>);

enum Held {
    Own(Box<[u8; PAGE_BYTES]>),
    Lent(Loan),
}

/// Bytes that a medium holds.
struct Loan {
    holder: Rc<dyn PageHolder>,
    place: u64,
    /// Sum of the bytes when they were lent; nothing reads it without debug assertions.
    sum: u64,
}

impl Loan {
    fn copy(&self) -> Box<[u8; PAGE_BYTES]> {
        let mut bytes = zeros();
        self.holder.copy_page(self.place, &mut bytes);
        debug_assert_eq!(
            checked_sum(&bytes),
            self.sum,
            "the bytes at place {} changed while they were lent",
            self.place
        );
        bytes
    }
}

/// Memory of a page, zeros.
pub fn zeros() -> Box<[u8; PAGE_BYTES]> {
    // As a vector: an array would be made on the stack and copied.
    vec![0; PAGE_BYTES].into_boxed_slice().try_into().expect("a page's length")
}

/// A sum that differs for most pages that differ, by place and value of each word; 0 without debug assertions.
fn checked_sum(bytes: &[u8; PAGE_BYTES]) -> u64 {
    if !cfg!(debug_assertions) {
        return 0;
    }
    let words = bytes.chunks_exact(8).map(|word| word.try_into().expect("eight bytes"));
    words.fold(1, |sum: u64, word| {
        // An odd factor: a change of one word is never lost on the way to the sum.
        (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

impl SharedPage {
    /// A page of zeros.
    pub fn zeroed() -> Rc<Self> {
        Self::with_own(zeros())
    }

    /// A page with these bytes.
    pub fn with_own(bytes: Box<[u8; PAGE_BYTES]>) -> Rc<Self> {
        Rc::new(Self(RefCell::new(Held::Own(bytes))))
    }

    /// A page with the same bytes, which changes alone.
    pub fn copied(&self) -> Rc<Self> {
        Self::with_own(match &*self.0.borrow() {
            Held::Own(bytes) => bytes.clone(),
            Held::Lent(loan) => loan.copy(),
        })
    }

    /// Looks at the bytes.
    pub fn look<T>(&self, look: impl FnOnce(&[u8; PAGE_BYTES]) -> T) -> T {
        match &*self.0.borrow() {
            Held::Own(bytes) => look(bytes),
            Held::Lent(loan) => look(&loan.copy()),
        }
    }

    /// Changes the bytes, for everyone who has the page. They are the page's own from now on.
    pub fn change<T>(&self, change: impl FnOnce(&mut [u8; PAGE_BYTES]) -> T) -> T {
        let held = &mut *self.0.borrow_mut();
        if let Held::Lent(loan) = held {
            *held = Held::Own(loan.copy());
        }
        match held {
            Held::Own(bytes) => change(bytes),
            Held::Lent(_) => unreachable!("it has just been taken back"),
        }
    }

    /// True if a medium holds the bytes.
    pub fn is_lent(&self) -> bool {
        matches!(&*self.0.borrow(), Held::Lent(_))
    }

    /// The bytes stand at a place of `holder`, too: the page gives its own up if both are equal. Returns
    /// whether the page is lent from there now. The holder calls [`SharedPage::take_back`] before the place
    /// changes.
    pub fn lend(&self, holder: &Rc<impl PageHolder + 'static>, place: u64) -> bool {
        let held = &mut *self.0.borrow_mut();
        // One place is enough; a page that is lent from another stays so.
        let Held::Own(bytes) = held else { return false };
        let mut stored = [0; PAGE_BYTES];
        holder.copy_page(place, &mut stored);
        if **bytes != stored {
            return false;
        }
        let sum = checked_sum(&stored);
        *held = Held::Lent(Loan { holder: holder.clone(), place, sum });
        true
    }

    /// The page holds its bytes itself again, if they were lent from this place.
    pub fn take_back(&self, place: u64) {
        let held = &mut *self.0.borrow_mut();
        if let Held::Lent(loan) = held
            && loan.place == place
        {
            *held = Held::Own(loan.copy());
        }
    }
}

impl std::fmt::Debug for SharedPage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SharedPage").field("is_lent", &self.is_lent()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE_BYTES, PageHolder, SharedPage};
    use std::cell::Cell;
    use std::rc::Rc;

    /// A medium whose every byte is the same.
    #[derive(Default)]
    struct Filled(Cell<u8>);

    impl PageHolder for Filled {
        fn copy_page(&self, _: u64, into: &mut [u8; PAGE_BYTES]) {
            into.fill(self.0.get());
        }
    }

    fn first(page: &SharedPage) -> u8 {
        page.look(|bytes| bytes[0])
    }

    /// A page of threes that a medium lends from place 7.
    fn lent() -> (Rc<Filled>, Rc<SharedPage>) {
        let holder = Rc::new(Filled(Cell::new(3)));
        let page = SharedPage::zeroed();
        page.change(|bytes| bytes.fill(3));
        assert!(page.lend(&holder, 7) && page.is_lent());
        (holder, page)
    }

    #[test]
    fn a_page_is_lent_only_where_the_same_bytes_stand() {
        let (holder, page) = (Rc::new(Filled(Cell::new(3))), SharedPage::zeroed());
        assert!(!page.lend(&holder, 7) && !page.is_lent());
        let (_, page) = lent();
        assert!(!page.lend(&holder, 8), "it is lent from place 7");
        assert_eq!(first(&page), 3);
    }

    #[test]
    fn a_page_that_was_taken_back_outlives_a_change_of_the_place() {
        let (holder, page) = lent();
        page.take_back(8);
        assert!(page.is_lent(), "another place");
        page.take_back(7);
        holder.0.set(9);
        assert_eq!((page.is_lent(), first(&page)), (false, 3));
    }

    #[test]
    fn a_change_reaches_all_who_have_the_page_and_no_copy() {
        let (_, page) = lent();
        let (same, copy) = (page.clone(), page.copied());
        page.change(|bytes| bytes[0] = 5);
        assert_eq!((first(&same), first(&copy), page.is_lent()), (5, 3, false));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "the bytes at place 7 changed while they were lent")]
    fn a_place_that_changes_while_it_is_lent_is_seen() {
        let (holder, page) = lent();
        holder.0.set(4);
        first(&page);
    }
}
