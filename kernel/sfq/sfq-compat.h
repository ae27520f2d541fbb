/* SPDX-License-Identifier: GPL-2.0-only */
/* Where the kernels differ that the scheduler is built for. */
#ifndef _SFQ_COMPAT_H
#define _SFQ_COMPAT_H

#include <linux/version.h>

/* The last argument of insert_requests. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#define sfq_insert_flags	bool
#define SFQ_AT_HEAD		true
#else
#define sfq_insert_flags	blk_insert_t
#define SFQ_AT_HEAD		BLK_MQ_INSERT_AT_HEAD
#endif

/* Until 6.9 it is the scheduler that keeps one write to a zone in flight. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0) && defined(CONFIG_BLK_DEV_ZONED)
#define SFQ_LOCKS_ZONES
#endif

#endif
