/* Whether this is built with AddressSanitizer: SRT_SANITIZED is 1 or 0. */
#ifndef SRT_SANITIZED_H
#define SRT_SANITIZED_H

#define SRT_SANITIZED 0
#if defined(__SANITIZE_ADDRESS__)
#undef SRT_SANITIZED
#define SRT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#undef SRT_SANITIZED
#define SRT_SANITIZED 1
#endif
#endif

#endif
