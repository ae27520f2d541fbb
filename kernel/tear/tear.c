// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tears the operation of a NAND chip at which its power is cut, and freezes
 * the chip as the cut leaves it.
 *
 * All programs and erases of JFFS2, UBI and UBIFS reach the chip through
 * _write_oob and _erase of the master device: the core turns mtd_write() into
 * the former (drivers/mtd/mtdcore.c, mtd_write_oob_std). They are replaced by
 * functions that count and, when so many have passed, carry out a part.
 * Afterwards the chip is dead: what is asked of it reports success and changes
 * nothing. An error would be acted upon instead: UBIFS turns read-only, JFFS2
 * and UBI try elsewhere. Reads go on, so that the medium can be dumped.
 */
#include <linux/module.h>
#include <linux/mtd/mtd.h>
#include <linux/mutex.h>
#include <linux/prandom.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

/* What is counted apart, as only a few of all operations are of the rarer kinds. */
enum { PROGRAM, SPARE_PROGRAM, ERASE, UBI_HEADER, UBIFS_MASTER, LAST_PAGE, KINDS };
enum { UNTOUCHED, FIRST_HALF, WITHOUT_SPARE, RANDOM_BITS, SHAPES };

static int remaining = -1;
module_param(remaining, int, 0644);
MODULE_PARM_DESC(remaining, "operations of the chosen kinds that are still let through; -1: all");
static unsigned int kinds = BIT(KINDS) - 1;
module_param(kinds, uint, 0644);
MODULE_PARM_DESC(kinds, "bits: 1 programs, 2 of spare areas alone, 4 erases, 8 UBI headers, 16 UBIFS masters, 32 last pages");
static unsigned int shape;
module_param(shape, uint, 0644);
MODULE_PARM_DESC(shape, "0 nothing is done, 1 the first half, 2 all but the spare area, 3 random bits");
static unsigned long seed = 1;
module_param(seed, ulong, 0644);
MODULE_PARM_DESC(seed, "of the random bits");
static bool dead;
module_param(dead, bool, 0644);
MODULE_PARM_DESC(dead, "the power is off");
static unsigned int counts[KINDS];
module_param_array(counts, uint, NULL, 0444);
MODULE_PARM_DESC(counts, "operations by kind, the torn one too");
static int torn_kind = -1;
module_param(torn_kind, int, 0444);
MODULE_PARM_DESC(torn_kind, "kind of the torn operation; -1: none");
static unsigned long long torn_address;
module_param(torn_address, ullong, 0444);
MODULE_PARM_DESC(torn_address, "its place on the master device, bytes");

static DEFINE_MUTEX(lock);
static struct mtd_info *device, *master;
static int (*whole_write_oob)(struct mtd_info *mtd, loff_t to, struct mtd_oob_ops *ops);
static int (*whole_erase)(struct mtd_info *mtd, struct erase_info *instr);
static int (*whole_block_markbad)(struct mtd_info *mtd, loff_t at);

static int kind_of(loff_t to, const struct mtd_oob_ops *ops)
{
	/* Magic of a UBIFS node, and its type at byte 20 (fs/ubifs/ubifs-media.h). */
	static const u8 ubifs_node[] = { 0x31, 0x18, 0x10, 0x06 };
	const u8 *data = ops->datbuf;

	if (!data)
		return SPARE_PROGRAM;
	if (ops->len >= 64 && !memcmp(data, "UBI", 3))
		return UBI_HEADER;
	if (ops->len > 20 && !memcmp(data, ubifs_node, sizeof(ubifs_node)) && data[20] == 7)
		return UBIFS_MASTER;
	if (mtd_mod_by_eb(to, master) >= master->erasesize - master->writesize)
		return LAST_PAGE;
	return PROGRAM;
}

static bool is_cut_at(int kind, loff_t at)
{
	counts[kind]++;
	if (remaining < 0 || !(kinds & BIT(kind)) || remaining-- > 0)
		return false;
	dead = true;
	torn_kind = kind;
	torn_address = at;
	return true;
}

/* A page with its spare area, as the cells hold it: no ECC. */
static int read_cells(loff_t at, u8 *bytes)
{
	struct mtd_oob_ops ops = {
		.mode = MTD_OPS_RAW, .len = master->writesize, .ooblen = master->oobsize,
		.datbuf = bytes, .oobbuf = bytes + master->writesize,
	};

	return mtd_read_oob(master, at, &ops);
}

static int program_cells(loff_t at, u8 *bytes)
{
	struct mtd_oob_ops ops = {
		.mode = MTD_OPS_RAW, .len = master->writesize, .ooblen = master->oobsize,
		.datbuf = bytes, .oobbuf = bytes + master->writesize,
	};

	/* A blank page stays one that was never programmed. */
	if (!memchr_inv(bytes, 0xff, master->writesize + master->oobsize))
		return 0;
	return whole_write_oob(master, at, &ops);
}

static void keep_random_bits(struct rnd_state *random, u8 *cells, const u8 *old, size_t length)
{
	while (length--)
		*cells++ |= *old++ & prandom_u32_state(random);
}

/* What remains of a block whose erase was cut, page by page. */
static void tear_cells(u8 *cells, u32 page, struct rnd_state *random)
{
	size_t whole = master->writesize + master->oobsize;

	if (shape == FIRST_HALF && page < mtd_div_by_ws(master->erasesize, master) / 2)
		memset(cells, 0xff, whole);
	else if (shape == WITHOUT_SPARE)
		memset(cells, 0xff, master->writesize);
	else if (shape == RANDOM_BITS)
		for (; whole; whole--)
			*cells++ |= prandom_u32_state(random);
}

/*
 * Erases a block and programs back what is to remain of it: what it held, torn
 * (torn is NULL), or with another content of one page.
 */
static int replace_cells(loff_t block, loff_t at, const u8 *torn)
{
	size_t size = master->writesize + master->oobsize;
	u32 page, pages = mtd_div_by_ws(master->erasesize, master);
	struct erase_info erase = { .addr = block, .len = master->erasesize };
	struct rnd_state random;
	u8 *cells = vmalloc(array_size(pages, size));
	int error = cells ? 0 : -ENOMEM;

	prandom_seed_state(&random, seed);
	for (page = 0; !error && page < pages; page++)
		error = read_cells(block + (loff_t)page * master->writesize, cells + page * size);
	if (!error)
		error = whole_erase(master, &erase);
	for (page = 0; !error && page < pages; page++) {
		loff_t place = block + (loff_t)page * master->writesize;

		if (!torn)
			tear_cells(cells + page * size, page, &random);
		else if (place == at)
			memcpy(cells + page * size, torn, size);
		error = program_cells(place, cells + page * size);
	}
	vfree(cells);
	return error;
}

static int tear_program(loff_t to, struct mtd_oob_ops *ops)
{
	u32 column = mtd_mod_by_ws(to, master), size = master->writesize + master->oobsize;
	loff_t page = to - column;
	struct rnd_state random;
	u8 *old = vmalloc(size), *new = vmalloc(size);
	int error = old && new ? 0 : -ENOMEM;

	if (!error && shape == RANDOM_BITS) {
		/* Only a whole program tells which ECC bytes belong to the data. */
		error = read_cells(page, old);
		if (!error)
			error = whole_write_oob(master, to, ops);
		if (!error)
			error = read_cells(page, new);
		prandom_seed_state(&random, seed);
		if (!error)
			keep_random_bits(&random, new, old, size);
		if (!error)
			error = replace_cells(page - mtd_mod_by_eb(page, master), page, new);
	} else if (!error) {
		memset(new, 0xff, size);
		memcpy(new + column, ops->datbuf, shape == FIRST_HALF ? ops->len / 2 : ops->len);
		error = program_cells(page, new);
	}
	vfree(old);
	vfree(new);
	return error;
}

static int program(loff_t to, struct mtd_oob_ops *ops)
{
	if (!is_cut_at(kind_of(to, ops), to))
		return whole_write_oob(master, to, ops);
	/* A write of a spare area alone is done or not. */
	return shape == UNTOUCHED || !ops->datbuf ? 0 : tear_program(to, ops);
}

static int write_oob(struct mtd_info *mtd, loff_t to, struct mtd_oob_ops *ops)
{
	size_t done = 0;
	int error = 0;

	/* No file system does this, and which spare bytes go with which page is the driver's. */
	if (ops->datbuf && ops->oobbuf && ops->len > mtd->writesize)
		return -EOPNOTSUPP;
	mutex_lock(&lock);
	if (!dead && !ops->datbuf)
		error = program(to, ops);
	/* Each page is an operation by itself: a cut may fall between two of a call. */
	while (!dead && !error && ops->datbuf && done < ops->len) {
		struct mtd_oob_ops page = *ops;

		page.datbuf = ops->datbuf + done;
		page.len = min_t(size_t, ops->len - done,
				 mtd->writesize - mtd_mod_by_ws(to + done, mtd));
		error = program(to + done, &page);
		done += page.len;
	}
	mutex_unlock(&lock);
	ops->retlen = error ? 0 : ops->len;
	ops->oobretlen = error ? 0 : ops->ooblen;
	return error;
}

static int erase(struct mtd_info *mtd, struct erase_info *instr)
{
	u64 at = instr->addr;
	int error = 0;

	mutex_lock(&lock);
	for (; !dead && !error && at < instr->addr + instr->len; at += mtd->erasesize) {
		struct erase_info block = { .addr = at, .len = mtd->erasesize };

		if (!is_cut_at(ERASE, at))
			error = whole_erase(mtd, &block);
		else if (shape != UNTOUCHED)
			error = replace_cells(at, 0, NULL);
		instr->fail_addr = error ? block.fail_addr : MTD_FAIL_ADDR_UNKNOWN;
	}
	mutex_unlock(&lock);
	return error;
}

static int block_markbad(struct mtd_info *mtd, loff_t at)
{
	return dead ? 0 : whole_block_markbad(mtd, at);
}

static int __init tear_init(void)
{
	if (shape >= SHAPES)
		return -EINVAL;
	device = get_mtd_device(NULL, 0);
	if (IS_ERR(device))
		return PTR_ERR(device);
	/* Device 0 may be a partition: the core calls its master's functions. */
	master = mtd_get_master(device);
	whole_write_oob = master->_write_oob;
	whole_erase = master->_erase;
	whole_block_markbad = master->_block_markbad;
	if (!whole_write_oob || !whole_erase || !whole_block_markbad) {
		put_mtd_device(device);
		return -EOPNOTSUPP;
	}
	master->_write_oob = write_oob;
	master->_erase = erase;
	master->_block_markbad = block_markbad;
	return 0;
}

static void __exit tear_exit(void)
{
	mutex_lock(&lock);
	master->_write_oob = whole_write_oob;
	master->_erase = whole_erase;
	master->_block_markbad = whole_block_markbad;
	mutex_unlock(&lock);
	put_mtd_device(device);
}

module_init(tear_init);
module_exit(tear_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("nandlab");
MODULE_DESCRIPTION("Cuts the power of a NAND chip at one operation, which it tears");
