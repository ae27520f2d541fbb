"""Power cuts within a real kernel and within the simulation, each recovered by both.

- `scripts` draws scripts of system calls, some of which must fail.
- `chips` cuts JFFS2 and UBIFS: a module of the kernel tears the chip at one operation of a script,
  or the simulation does; the kernel recovers, and so does the simulation.
- `disks` cuts NILFS2 at the bios that the kernel wrote, or at the blocks that the simulation wrote.
- `cases` compares the two recoveries and keeps what differs.
- `long_run` does so by the hundred, resumably, and writes a table.
"""
