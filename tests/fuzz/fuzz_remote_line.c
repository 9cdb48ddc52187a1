/*
 * What a module in another process sends: the first byte says whether it is its hello. A verdict
 * that is not ERROR stands on the line in so many words, and a hello that is taken has a phase.
 */
#include "filters/remote_line.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool says(struct str line, const char *word)
{
    return memmem(line.p, line.len, word, strlen(word)) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct srt_err why = {""};
    if (size == 0)
        return 0;
    const struct str line = {(const char *)data + 1, size - 1};
    if (data[0] == 'h') {
        struct remote_hello hello;
        if (remote_read_hello(line, &hello, &why))
            assert(hello.phases != 0 && hello.phases <= 7 && hello.fields <= REMOTE_ALL);
        else
            assert(why.text[0] != '\0');
        return 0;
    }
    struct remote_answer answer;
    const bool has_id = remote_read_answer(line, &answer, &why);
    assert(has_id ? answer.id > 0 : answer.verdict == SRT_FILTER_ERROR && why.text[0] != '\0');
    assert(memchr(answer.reason, '\0', sizeof(answer.reason)) != NULL);
    assert(answer.ttl_ms >= -1);
    /* Escapes can spell the words, too. */
    if (answer.verdict == SRT_FILTER_PASS)
        assert(says(line, "pass") || says(line, "\\u"));
    if (answer.verdict == SRT_FILTER_DENY)
        assert(says(line, "deny") || says(line, "\\u"));
    return 0;
}
