// SPDX-License-Identifier: Apache-2.0
// Demultiplexer of exec output: frames of 1 byte stream, 3 zero bytes, 4 bytes big-endian length, then the bytes. Pure;
// input may be split anywhere, and nothing is kept but the header at hand.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/docker/docker.h"
#include "common/base/error.h"

#define DOCKER_FRAME_HEADER_SIZE 8

struct docker_frames {
	// False stops.
	bool (*put)(void *context, enum berth_docker_stream stream, const void *data, size_t size);
	void *context;
	uint8_t header[DOCKER_FRAME_HEADER_SIZE];
	size_t header_size;
	uint32_t left; // of the frame at hand
};

enum docker_frames_result { DOCKER_FRAMES_GOOD, DOCKER_FRAMES_STOPPED, DOCKER_FRAMES_BAD };

// BAD sets err: bytes that are no frames, or the daemon's own message about a broken stream.
enum docker_frames_result docker_frames_feed(
	struct docker_frames *frames, const void *data, size_t size, struct berth_error *err);
// False when the stream ended within a frame.
bool docker_frames_at_end(const struct docker_frames *frames);
