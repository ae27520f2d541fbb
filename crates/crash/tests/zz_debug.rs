//! Debug.
use crash::*;
use mount::*;
use mtd::find_layout;
use nand::*;
#[test]
fn one() {
    let commands = script::parse(include_str!("../../../scripts/power-cuts.ops")).unwrap();
    let mut part = find_part("k9f2g08u0c").unwrap();
    part.geometry.blocks = 64;
    part.geometry.pages_per_block = 16;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let only: usize = std::env::var("ONLY").unwrap().parse().unwrap();
    let kind: &'static str = Box::leak(std::env::var("KIND").unwrap().into_boxed_str());
    let torn = find_torn_model(&std::env::var("TORN").unwrap()).unwrap();
    let layout = find_layout("linux-large").unwrap();
    let setup = Setup { kind, request: MountRequest::default(), layout, seed: 1, sabotage: Sabotage::None };
    let crash = Crash::new(&chip, &setup, &commands).unwrap();
    let w = crash.history().window(only as u64);
    for i in w.states.clone() {
        let s = &crash.history().states()[i];
        eprintln!("state {i} line {} begun {} written {:?} hazard {:?}", s.line, s.begun_at, s.written, s.hazard);
        if i > *w.states.start() {
            let p = &crash.history().states()[i-1];
            let mut t = s.tree.clone();
            let mut n = 0;
            while let Some(d) = p.tree.first_difference(&t) {
                eprintln!("    {} {:?}", String::from_utf8_lossy(&d), s.tree.rows.get(&d).map(|r| r.describe()));
                let mut t2 = (*t).clone();
                match p.tree.rows.get(&d) { Some(r) => { t2.rows.insert(d, r.clone()); } None => { t2.rows.remove(&d); } }
                t = std::sync::Arc::new(t2);
                n += 1; if n > 6 { break; }
            }
        }
    }
    let mut c = chip.clone();
    for op in &crash.journal()[..only] { let _ = c.apply(op); }
    eprintln!("op {}", crash.journal()[only]);
    c.set_torn(torn.torn);
    c.cut_power_after(0, CutPoint::Inside);
    let _ = c.apply(&crash.journal()[only]);
    c.power_on();
    if let RawOperation::PageProgram { at, .. } = &crash.journal()[only] {
        let (mut d, mut o) = (vec![0; 2048], vec![0; 64]);
        c.read_raw(*at, &mut d, &mut o).unwrap();
        for (n, step) in d.chunks(256).enumerate() { eprintln!("step {n} {:?}", layout.check_step(step, n, &o)); }
    }
    let kindr = find_kind(kind).unwrap();
    run(c, &Driver::of_tool(layout), 1, async move |m: Machine| {
        let mounted = m.mount(kindr, &MountRequest::default()).await.unwrap();
        eprintln!("{:?}", mounted.file_system.findings().await);
        let t = Tree::read(&*mounted.file_system).await;
        match t { Ok(t) => for (p, r) in &t.rows { eprintln!("  {} {}", String::from_utf8_lossy(p), r.describe()); }, Err(e) => eprintln!("{e:?}") }
        eprintln!("{:?}", mounted.file_system.findings().await);
    });
}
