//! Sectors hold what was written.

use block_medium::SectorStore;
use shared_page::SharedPage;
use std::rc::Rc;

#[test]
fn sectors_hold_what_was_written_last_and_are_zero_before() {
    let store = SectorStore::default();
    store.put(7, &[[1; 512], [2; 512]].concat());
    store.put(8, &[3; 512]);
    assert_eq!(store.get(6, 4), [[0; 512], [1; 512], [3; 512], [0; 512]].concat());
    let mixed: Vec<u8> = (0..=255).cycle().take(512).collect();
    store.put(7, &mixed);
    store.put(8, &mixed);
    store.put(8, &[0xff; 512]);
    assert_eq!(store.get(7, 2), [mixed, vec![0xff; 512]].concat());
}

#[test]
fn a_page_in_memory_keeps_its_bytes_when_one_of_its_sectors_is_written() {
    let store = Rc::new(SectorStore::default());
    let pages: Vec<_> = (1..4_u8)
        .map(|number| {
            let page = SharedPage::zeroed();
            page.change(|bytes| bytes.fill(number));
            store.put(u64::from(number) * 8, &[number; 4096]);
            store.keep_once(number.into(), &page);
            page
        })
        .collect();
    let lent = || pages.iter().map(|page| page.is_lent()).collect::<Vec<_>>();
    assert_eq!(lent(), [true; 3]);
    // The last sector of page 1, and the first one of page 2.
    store.put(15, &[9; 1024]);
    assert_eq!(lent(), [false, false, true]);
    for (number, page) in (1..).zip(&pages) {
        assert!(page.look(|bytes| bytes.iter().all(|byte| *byte == number)), "page {number}");
    }
    // What differs is not lent, nor is what was never written unless it is zero.
    store.keep_once(2, &pages[1]);
    store.keep_once(90, &pages[0]);
    assert_eq!(lent(), [false, false, true]);
    let zeros = SharedPage::zeroed();
    store.keep_once(90, &zeros);
    assert!(zeros.is_lent());
}
