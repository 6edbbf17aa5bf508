// SPDX-License-Identifier: Apache-2.0
#include "agent/docker/frames.h"

#include <string.h>

// What stdcopy knows besides the two outputs: an echo of stdin, which is never sent, and an error of the daemon.
#define STREAM_DAEMON_ERROR 3

static bool parse_header(struct docker_frames *frames, struct berth_error *err)
{
	const uint8_t *h = frames->header;
	if (h[0] < BERTH_DOCKER_STDOUT || h[0] > STREAM_DAEMON_ERROR || h[1] || h[2] || h[3]) {
		return berth_fail(err, BERTH_ERROR_IO, "the daemon's output stream has bytes that are no frame");
	}
	frames->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
	return true;
}

static size_t fill_header(struct docker_frames *frames, const uint8_t *data, size_t size)
{
	size_t wanted = DOCKER_FRAME_HEADER_SIZE - frames->header_size;
	size = size < wanted ? size : wanted;
	memcpy(frames->header + frames->header_size, data, size);
	frames->header_size += size;
	return size;
}

static enum docker_frames_result give(
	struct docker_frames *frames, const uint8_t *data, size_t size, struct berth_error *err)
{
	if (frames->header[0] == STREAM_DAEMON_ERROR) {
		int shown = size < 512 ? (int)size : 512;
		berth_fail(err, BERTH_ERROR_IO, "the daemon broke the output off: %.*s", shown, (const char *)data);
		return DOCKER_FRAMES_BAD;
	}
	enum berth_docker_stream stream = frames->header[0];
	return frames->put(frames->context, stream, data, size) ? DOCKER_FRAMES_GOOD : DOCKER_FRAMES_STOPPED;
}

enum docker_frames_result docker_frames_feed(
	struct docker_frames *frames, const void *bytes, size_t size, struct berth_error *err)
{
	const uint8_t *data = bytes;
	while (size > 0) {
		if (frames->header_size < DOCKER_FRAME_HEADER_SIZE) {
			size_t used = fill_header(frames, data, size);
			data += used;
			size -= used;
			if (frames->header_size == DOCKER_FRAME_HEADER_SIZE && !parse_header(frames, err)) {
				return DOCKER_FRAMES_BAD;
			}
		} else {
			size_t part = size < frames->left ? size : frames->left;
			enum docker_frames_result result = give(frames, data, part, err);
			if (result != DOCKER_FRAMES_GOOD) {
				return result;
			}
			data += part;
			size -= part;
			frames->left -= (uint32_t)part;
		}
		if (frames->header_size == DOCKER_FRAME_HEADER_SIZE && frames->left == 0) {
			frames->header_size = 0;
		}
	}
	return DOCKER_FRAMES_GOOD;
}

bool docker_frames_at_end(const struct docker_frames *frames)
{
	return frames->header_size == 0;
}
