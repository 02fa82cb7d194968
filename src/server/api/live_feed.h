/* What the server does, second by second: kept for some minutes, and told to the pages that listen (GET /api/live).
 *
 * A listener first hears "hello" with the history and the last lines of the log, then a "tick" each second. */
#ifndef VR_SERVER_API_LIVE_FEED_H
#define VR_SERVER_API_LIVE_FEED_H

#define VR_LIVE_SECONDS 300 /* of history */
#define VR_LIVE_LINES   200 /* of the log */

struct vr_front;
struct vr_live_feed;

/* NULL: no memory. Listens to the log from now on. */
struct vr_live_feed *vr_live_feed_new(struct vr_front *f);
void vr_live_feed_free(struct vr_live_feed *p);

#endif
