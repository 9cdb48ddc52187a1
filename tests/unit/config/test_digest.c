#include "config/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka wants the above first */
#include <cmocka.h>

/* FIPS 180-2, appendix B; the last is longer than a block. */
static void test_known_digests(void **state)
{
    (void)state;
    static const struct {
        struct str bytes;
        const char *digest;
    } known[] = {
        {STR(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {STR("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        uint8_t digest[DIGEST_LEN];
        char text[2 * DIGEST_LEN + 1];
        digest_make(digest, known[i].bytes);
        for (size_t k = 0; k < DIGEST_LEN; k++)
            snprintf(text + 2 * k, 3, "%02x", digest[k]);
        assert_string_equal(text, known[i].digest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_digests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
