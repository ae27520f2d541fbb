/* SPDX-License-Identifier: GPL-2.0-only */
/* Clocks of the programs that measure: time, and the time in which the processors had nothing to do. */
#ifndef CLOCKS_H
#define CLOCKS_H

#include <err.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* Nanoseconds that the processors have been idle. /proc/stat has them in hundredths of a second. */
static uint64_t idle_ns(void)
{
	FILE *list = fopen("/proc/timer_list", "r");
	unsigned int found = 0;
	uint64_t sum = 0, part;
	char line[256];

	if (!list)
		err(1, "/proc/timer_list");
	while (fgets(line, sizeof(line), list))
		if (sscanf(line, " .idle_sleeptime : %" SCNu64, &part) == 1 ||
		    sscanf(line, " .iowait_sleeptime : %" SCNu64, &part) == 1) {
			sum += part;
			found++;
		}
	fclose(list);
	if (!found)
		errx(1, "/proc/timer_list does not tell the idle time");
	return sum;
}

#endif
