/* SPDX-License-Identifier: Apache-2.0 */
/* A list that only grows, so that what is kept on purpose can be told from what was forgotten. */
#include "abandoned.h"

#include <pthread.h>
#include <stdlib.h>

struct abandoned {
	struct rsum_io_engine *engine;
	struct rsum_io_request *requests;
	struct rsum_buffer_pool pool;
	struct abandoned *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct abandoned *list;

void rsum_abandoned_keep(struct rsum_io_engine *engine, struct rsum_io_request *requests,
			 const struct rsum_buffer_pool *pool)
{
	struct abandoned *kept = malloc(sizeof(*kept));

	/* Without an entry it is kept all the same, and nobody knows of it. */
	if (!kept)
		return;
	kept->engine = engine;
	kept->requests = requests;
	kept->pool = *pool;
	pthread_mutex_lock(&lock);
	kept->next = list;
	list = kept;
	pthread_mutex_unlock(&lock);
}
