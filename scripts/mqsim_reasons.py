"""Why MQSim and nandlab differ on MQSim's own files: prose of the page that compares them.

Figures are those of the record beside the page, or arithmetic that stands here as a whole. Names in
code are functions and fields of MQSim at commit 7ec40e3.
"""

REASONS = """
## Why they differ

*Verified* means that a row above shows it and that MQSim's source says why.

### What is alike

- **Chips work side by side, dies do not** (verified). MQSim's schedulers send nothing to a chip
  that is not idle, and `issue_command_to_chip` returns after one die. With one die of twice the
  blocks MQSim has the same IOPS, within 1 %.
- **Nothing is ever suspended** (verified). In both schedulers the cases of a busy chip fall
  through to `default`, which sends nothing. All three values of `CMD_Suspension_Support` give the
  same figures.
- **Programs and the host's bus** (verified). Writes without a cache and with the whole table in
  memory agree within 1 %. PCIe ten times as fast changes neither by more than 0.2 %.
- **DRAM** (verified). Where the chips are the limit, a fast one changes IOPS by less than 1 %.
  Where all writes stay in the cache it is the limit: 4 KiB take 2.6 us, one write after the other.
  With that time nandlab has 1.09 times the IOPS of MQSim, without it 2.8 times.

### What differs, and why

- **A command waits for the channel** (verified): up to 10 % of IOPS, in all deep queues of reads.
  In MQSim a read begins with 0.29 us on the channel, and data that are ready go first. So chips of
  a channel fall into step: no new read begins before all of them have sent. Two chips then take
  75 + 2 x (12.29 + 0.29) us for two pages, which is 159,700 IOPS of 16 chips. MQSim has that, and
  joined commands on top. In nandlab commands take no time on the channel. With a channel three
  times as fast the difference is 1 %, and with one chip a channel it is gone.
- **Joined commands** (verified): 1 to 3 %, in favour of MQSim. It sends a command to two planes of
  a die if both pages have the same number. With one plane it is slower by so much. nandlab's dies
  have one plane here.
- **The mapping table** (the first part verified): the largest difference of the shipped workload.
  Both cache entries and read the table for the others. Over 2 s MQSim makes 2.00 reads of the flash
  for a request, and IOPS differ by 4 %. Over 10 s it makes 1.36, and nandlab goes on as before. By
  MQSim's source an evicted page of the table stays in memory until it is programmed
  (`DepartingMappingEntries`), and programs wait behind reads. No run shows that this is all of it.
  nandlab has no such pages.
- **Priority classes** (verified): MQSim serves the urgent flow of scenario 2 first. With both of
  one class its flows have the same IOPS. nandlab has no classes, and its flows are alike.
- **Order within a chip** (not separated): of 70 % reads MQSim answers 5 % more. It reads before it
  writes, nandlab keeps the order.
- **The trace** (verified for the most part). It asks for nearly all that the chips can do, so a
  little more work makes a long queue. Without preconditioning MQSim's device is empty. nandlab has
  all pages written first, because a read of a page that was never written would take no time. So
  it reads before it writes part of a page, and it moves whole pages. With requests that are whole
  pages the ratio of the mean responses falls from 16.9 to 0.6.
- **The write cache** (by its source; with its limit IOPS agree within 4 %). MQSim holds writes back
  as soon as a page for each plane is on its way to the flash. A page that is written again within a
  second stays in DRAM. nandlab does one or the other for a whole run: the former if the pages that
  most writes go to do not fit.

### What is not explained

- The trace with whole pages: its mean response is 0.6 of MQSim's with the cache, 1.2 without.
- How far the order within a chip explains the mix of reads and writes.
- Why MQSim reads its table as often as it does after the first seconds.

The files of `data-cache-contention` give no figure of MQSim. Its simple cache refuses the mode that
they ask for, at the first write, after minutes of preconditioning. A row above has the refusal
without preconditioning. Two shipped workloads still hold marks of a merge that was never finished.

No shipped file that ends makes MQSim clean, so none of it loses requests here.
[Speed](speed.md#side-by-side-with-mqsim) has random writes on a full device, with the requests that
MQSim loses there, and the threshold of cleaning.
"""

BEFORE = """
## What this comparison mended

The first comparison found rules of `nandlab mqsim` that were not MQSim's. They were mended: dies of
a chip take turns, only what is asked for is moved, the device is empty where no flow reads, the
cache has MQSim's limit and its DRAM takes time, the table is cached, and each flow has its own
`Queue_Fetch_Size`. So these figures are no test of a prediction.
The response in the trace was a twelfth of MQSim's. Now it is three times as long, as said above.

| scenario | figure | MQSim | before | now |
|---|---|---:|---:|---:|
| shipped workload, 1 | IOPS of both flows | 37,145 | 80,021 | 36,124 |
| shipped workload, 2 | IOPS of both flows | 153,156 | 212,041 | 106,080 |
| shipped workload, 3 | mean response, us | 3,458 | 292 | 10,702 |
| backend-contention, flow 2, 8 | IOPS | 163,493 | 299,912 | 177,586 |
| queue-fetch-size 16, both flows, 6 | IOPS of flow 1 | 41,272 | 5,432 | 43,200 |
| queue-fetch-size 16, both flows, 6 | IOPS of flow 2 | 83,564 | 173,490 | 86,354 |
| data-cache-contention, flow 2, 1 | IOPS | no answer | refused | 386,697 |
"""
