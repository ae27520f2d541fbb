//! Part files of a user: what is wrong with one is said with its line; the documentation is true.

use nand::{BUS_MODES, Cell, PageOrder, Part, catalogue, find_part, load_part};

const DOCUMENT: &str = include_str!("../../../../../docs/chips.md");

/// The example part of the documentation, without its comments.
fn example() -> String {
    let start = DOCUMENT.find("```toml\n").expect("an example") + 8;
    let text = &DOCUMENT[start..];
    text[..text.find("```").expect("an end")].to_owned()
}

fn refusal(text: &str) -> String {
    Part::parse("my.toml", text).expect_err("refused").to_string()
}

/// The message for the example with the line of `key` replaced, and the number of that line.
fn refusal_with(key: &str, line: &str) -> (String, usize) {
    let lines: Vec<String> = example().lines().map(str::to_owned).collect();
    let number =
        lines.iter().position(|found| found.starts_with(&format!("{key} ="))).expect("the key");
    let mut changed = lines;
    line.clone_into(&mut changed[number]);
    (refusal(&changed.join("\n")), number + 1)
}

#[test]
fn the_documented_example_is_a_part() {
    let part = Part::parse("example", &example()).expect("parses");
    assert_eq!((part.name.as_str(), part.geometry.pages_per_block), ("my-part", 64));
    assert_eq!((part.geometry.cell, part.geometry.page_order), (Cell::Slc, PageOrder::Ascending));
    assert_eq!(part.timing.transfer_ps_per_byte(), 30_000);
    assert_eq!(part.sources.len(), 1);
}

#[test]
fn the_documented_table_lists_every_part_and_its_values() {
    let rows: Vec<&str> = DOCUMENT.lines().filter(|line| line.starts_with("| `")).collect();
    let parts = catalogue();
    assert_eq!(rows.len(), parts.len());
    for (row, part) in rows.iter().zip(parts) {
        let (shape, timing) = (&part.geometry, &part.timing);
        let gib = shape.capacity_bytes() >> 30;
        let size = if gib > 0 {
            format!("{gib} GiB")
        } else {
            format!("{} MiB", shape.capacity_bytes() >> 20)
        };
        assert!(part.summary.contains(&size), "{}: {size}", part.summary);
        let micro = |ns: u64| (ns as f64 / 1e3).to_string();
        let programs: Vec<String> = timing.program_ns.iter().map(|ns| micro(*ns)).collect();
        let programs = if programs.iter().all(|time| *time == programs[0]) {
            &programs[..1]
        } else {
            &programs
        };
        let cycles = part.errors.erase_cycles_max / 1000;
        let bus = match timing.transfer_ps_per_byte() {
            0 => "0".into(),
            ps => format!("{} ns", ps as f64 / 1e3),
        };
        let order = match shape.page_order {
            PageOrder::Any => "any",
            PageOrder::Ascending => "ascending",
            PageOrder::Sequential => "sequential",
        };
        let reads: Vec<String> = timing.read_ns.iter().map(|read_ns| micro(*read_ns)).collect();
        let expected = [
            format!("{:?}", shape.cell).to_uppercase(),
            size,
            format!("{} + {}", shape.page_data_bytes, shape.page_oob_bytes),
            shape.pages_per_block.to_string(),
            shape.blocks.to_string(),
            format!("{} µs", reads.join(", ")),
            format!("{} µs", programs.join(", ")),
            format!("{} ms", timing.erase_ns as f64 / 1e6),
            bus,
            order.to_owned(),
            format!("{} / {}", shape.data_programs_max, shape.oob_programs_max),
            format!("{cycles},000"),
        ];
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert!(cells[0].starts_with(&format!("`{}`", part.name)), "{}", cells[0]);
        assert_eq!(cells[1..], expected, "{}", part.name);
    }
    for mode in BUS_MODES {
        let listed = format!("`{}` {}", mode.name, mode.transfer_ps_per_byte);
        assert!(DOCUMENT.replace('\n', " ").contains(&listed), "{listed}");
    }
}

#[test]
fn values_out_of_range_are_refused_with_key_line_and_range() {
    let cases = [
        ("page_data_bytes", "255", "geometry.page_data_bytes must be 256 to 1048576"),
        ("page_oob_bytes", "8", "geometry.page_oob_bytes must be 12 to 65536"),
        ("pages_per_block", "1", "geometry.pages_per_block must be 2 to 16384"),
        ("blocks", "1", "geometry.blocks must be at least 2"),
        ("blocks", "40000000", "geometry.blocks × pages_per_block must stay below 2^31 pages"),
        ("planes", "0", "geometry.planes must be 1 to geometry.blocks"),
        ("data_programs_max", "16", "geometry.data_programs_max must be 1 to 15"),
        ("oob_programs_max", "0", "geometry.oob_programs_max must be 1 to 15"),
        (
            "bad_mark_oob_offset",
            "64",
            "geometry.bad_mark_oob_offset must lie inside the spare area",
        ),
        ("read_ns", "1000000001", "timing.read_ns must be at most 1000000000 (1 s)"),
        ("program_ns", "[1000000001]", "timing.program_ns must be at most 1000000000 (1 s)"),
        (
            "program_ns",
            "[]",
            "timing.program_ns needs one to four entries, one a page of a word line",
        ),
        ("read_ns", "[]", "timing.read_ns needs one to four entries, one a page of a word line"),
        ("read_ns", "[1, 2]", "timing.read_ns needs one entry for this kind of cell, not 2"),
        ("read_ns", "[2, 1]", "timing.read_ns begins with the lower page, the fastest one"),
        ("program_ns", "[1, 2]", "timing.program_ns needs one entry for this kind of cell, not 2"),
        ("erase_ns", "10000000001", "timing.erase_ns must be at most 10000000000 (10 s)"),
        ("erase_cycles_max", "0", "errors.erase_cycles_max is 0 and must be 1 to 1000000000"),
        (
            "erase_cycles_spread_percent",
            "51.0",
            "errors.erase_cycles_spread_percent is 51 and must be 0 to 50",
        ),
        ("ecc_codeword_bytes", "0", "errors.ecc_codeword_bytes is 0 and must be 1 to 65536"),
        (
            "ecc_correctable_bits",
            "65537",
            "errors.ecc_correctable_bits is 65537 and must be 0 to 65536",
        ),
        ("rber_fresh", "1.5", "errors.rber_fresh is 1.5 and must be 0 to 1"),
        ("rber_worn", "nan", "errors.rber_worn is NaN and must be 0 to 1"),
        ("wear_exponent", "-1.0", "errors.wear_exponent is -1 and must be 0 to 10"),
        (
            "retention_rber_per_year",
            "2.0",
            "errors.retention_rber_per_year is 2 and must be 0 to 1",
        ),
        ("retention_exponent", "11.0", "errors.retention_exponent is 11 and must be 0 to 10"),
        (
            "read_disturb_rber_per_read",
            "-0.5",
            "errors.read_disturb_rber_per_read is -0.5 and must be 0 to 1",
        ),
        ("program_failure_worn", "2.0", "errors.program_failure_worn is 2 and must be 0 to 1"),
        ("erase_failure_worn", "inf", "errors.erase_failure_worn is inf and must be 0 to 1"),
        (
            "factory_bad_probability",
            "1.1",
            "errors.factory_bad_probability is 1.1 and must be 0 to 1",
        ),
        (
            "bus",
            "\"sdr-9\"\ntransfer_ps_per_byte = 1",
            "timing.bus and transfer_ps_per_byte exclude each other: give one",
        ),
    ];
    for (key, value, sentence) in cases {
        let (message, line) = refusal_with(key, &format!("{key} = {value}"));
        assert_eq!(message, format!("my.toml: line {line}: {sentence}"));
    }
    let (message, line) = refusal_with("bus", "transfer_ps_per_byte = 1000000001");
    assert_eq!(
        message,
        format!(
            "my.toml: line {line}: timing.transfer_ps_per_byte must be at most 1000000000 (1 ms)"
        )
    );
    let (message, _) = refusal_with("bus", "");
    let section = example().lines().position(|line| line == "[timing]").expect("a section") + 1;
    assert_eq!(
        message,
        format!("my.toml: line {section}: timing needs bus or transfer_ps_per_byte")
    );
    let (message, line) = refusal_with("bus", "bus = \"sdr-9\"");
    assert!(
        message.starts_with(&format!(
            "my.toml: line {line}: timing.bus: unknown mode `sdr-9`; known: nv-ddr-0, "
        )),
        "{message}"
    );
}

#[test]
fn blocks_of_parts_with_several_bits_are_whole_word_lines() {
    for (cell, pages, sentence) in [
        (
            "mlc",
            6,
            "geometry.pages_per_block must be a multiple of 4, at least 8, with cell = \"mlc\"",
        ),
        (
            "mlc",
            4,
            "geometry.pages_per_block must be a multiple of 4, at least 8, with cell = \"mlc\"",
        ),
        (
            "tlc",
            64,
            "geometry.pages_per_block must be a multiple of the pages of a word line (tlc 3, qlc 4)",
        ),
        (
            "qlc",
            66,
            "geometry.pages_per_block must be a multiple of the pages of a word line (tlc 3, qlc 4)",
        ),
    ] {
        let text = example()
            .replace("cell = \"slc\"", &format!("cell = \"{cell}\""))
            .replace("pages_per_block = 64", &format!("pages_per_block = {pages}"));
        assert_eq!(refusal(&text), format!("my.toml: line 7: {sentence}"));
    }
    let text = example().replace("\"slc\"", "\"mlc\"").replace("[200000]", "[1, 2, 3]");
    assert_eq!(
        refusal(&text),
        "my.toml: line 18: timing.program_ns needs one or 2 entries for this kind of cell, not 3"
    );
}

#[test]
fn what_is_no_part_at_all_is_refused_with_its_line() {
    let parse = |key, line| {
        let (message, number) = refusal_with(key, line);
        (
            message.starts_with(&format!("my.toml: TOML parse error at line {number}, column ")),
            message,
        )
    };
    for (key, line, reason) in [
        ("planes", "plains = 1", "unknown field `plains`, expected one of `page_data_bytes`, "),
        ("planes", "planes = \"two\"", "invalid type: string \"two\", expected u32"),
        ("planes", "planes = -1", "invalid value: integer `-1`, expected u32"),
        (
            "cell",
            "cell = \"xlc\"",
            "unknown variant `xlc`, expected one of `slc`, `mlc`, `tlc`, `qlc`",
        ),
        (
            "page_order",
            "page_order = \"down\"",
            "unknown variant `down`, expected one of `any`, `ascending`, `sequential`",
        ),
        (
            "read_ns",
            "read_ns = 1.5",
            "invalid type: floating point `1.5`, expected nanoseconds, or a list of them",
        ),
        ("read_ns", "read_ns = -5", "invalid value: integer `-5`, expected nanoseconds"),
        (
            "program_ns",
            "program_ns = 200000",
            "invalid type: integer `200000`, expected a sequence",
        ),
    ] {
        let (names_line, message) = parse(key, line);
        assert!(names_line, "{message}");
        assert!(message.contains(reason), "{message}");
    }
    let (message, _) = refusal_with("blocks", "");
    // Keys that the part can do without are not asked for: this one has `bus`, no `transfer_ps_per_byte`.
    let lacks = "lacks in [geometry] (line 4) blocks; `nandlab explain ";
    assert!(message.contains(lacks), "{message}");
    assert!(refusal("name = ").contains("TOML parse error at line 1, column 8"));
}

#[test]
fn a_file_is_read_from_its_path_and_a_missing_one_is_named() {
    let directory = std::env::temp_dir().join(format!("nand-part-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let path = directory.join("my.toml");
    std::fs::write(&path, example()).expect("written");
    assert_eq!(load_part(&path).expect("a part").name, "my-part");
    std::fs::remove_dir_all(&directory).expect("removed");
    let message = load_part(&path).expect_err("missing").to_string();
    assert!(
        message.starts_with(&format!("{}: ", path.display())) && message.contains("os error 2"),
        "{message}"
    );
    assert!(find_part("my-part").is_none());
}
