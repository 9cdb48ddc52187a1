/*
 * Runs when the program is built: writes every system call filter as a C array, since libseccomp
 * takes longer to make one than the kernel to start a sandbox. usage: bake-filters > FILE
 */
#include "launcher/syscalls_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What it makes stands in for itself here. */
const struct syscalls_program syscalls_baked[SYSCALLS_VARIANTS][2];
const int syscalls_baked_numbers[1];

struct made {
    struct sock_filter *code;
    size_t len;
    unsigned same_as; /* the first with this code */
};

enum { MADE = 2 * SYSCALLS_VARIANTS };

static unsigned find_same(const struct made *all, unsigned index)
{
    for (unsigned i = 0; i < index; i++)
        if (all[i].len == all[index].len &&
            memcmp(all[i].code, all[index].code, all[i].len * sizeof(*all[i].code)) == 0)
            return i;
    return index;
}

static void print_code(unsigned index, const struct made *made)
{
    printf("static const struct sock_filter code_%u[] = {\n", index);
    for (size_t i = 0; i < made->len; i++)
        printf("    {0x%x, %u, %u, 0x%x},\n", made->code[i].code, made->code[i].jt,
               made->code[i].jf, made->code[i].k);
    puts("};");
}

int main(void)
{
    static struct made all[MADE];
    puts("/* Written by bake_filters.c: the filters of launcher/syscalls.c. */\n"
         "#include \"launcher/syscalls_rows.h\"\n");
    for (unsigned i = 0; i < MADE; i++) {
        int result = syscalls_make(i / 2, i % 2 != 0, &all[i].code, &all[i].len);
        if (result != 0) {
            fprintf(stderr, "bake-filters: libseccomp: %s\n", strerror(-result));
            return 1;
        }
        all[i].same_as = find_same(all, i);
        if (all[i].same_as == i)
            print_code(i, &all[i]);
    }
    puts("\nconst struct syscalls_program syscalls_baked[SYSCALLS_VARIANTS][2] = {");
    for (unsigned i = 0; i < MADE; i += 2)
        printf("    {{code_%u, %zu}, {code_%u, %zu}},\n", all[i].same_as, all[i].len,
               all[i + 1].same_as, all[i + 1].len);
    puts("};\n\nconst int syscalls_baked_numbers[] = {");
    for (size_t i = 0; i < syscalls_row_count; i++)
        printf("    %d, /* %s */\n", syscalls_number(&syscalls_rows[i]), syscalls_rows[i].name);
    puts("};");
    for (unsigned i = 0; i < MADE; i++)
        free(all[i].code);
    return fflush(stdout) == 0 ? 0 : 1;
}
