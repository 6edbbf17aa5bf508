// SPDX-License-Identifier: Apache-2.0
#pragma once

// Replaces what is not UTF-8 by question marks, in place: a message that was cut inside a character would make a
// peer's protobuf library refuse the whole status.
void berth_rpc_text_clean(char *text);
