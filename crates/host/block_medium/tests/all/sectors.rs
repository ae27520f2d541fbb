//! Sectors hold what was written.

use block_medium::SectorStore;

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
