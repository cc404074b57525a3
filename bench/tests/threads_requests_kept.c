// ranks: 1 2 3
// launch: -x WEFT_UNEXPECTED_BYTES=500
// The same where hardly anything is sent before its receive: buffered messages stay in the buffer until they are received, and it is full
// most of the time.
#include "threads_requests.c"
