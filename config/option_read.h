/*
 * What reading a value needs, whatever its kind: words, faults, and the usual ways to print.
 *
 * Private to option.c (values by themselves), option_address.c (addresses and what has some) and
 * option_file.c (what lies in a file of its own). Thread and failure as in option.h.
 */
#ifndef CONFIG_OPTION_READ_H
#define CONFIG_OPTION_READ_H

#include "config/option.h"

#define fault(input, ...) faults_add((input)->faults, FAULT_ERROR, (input)->place, __VA_ARGS__)

/* The usual fault: what it says and what it should be. */
void option_reject(const struct option_input *input, struct str value, const char *wanted);

/* Quotes mean something only in a rule's reason; elsewhere they would become part of the value, so
 * they are a fault. */
bool option_is_unquoted(struct option_input *input);

/* The next word of a list separated by commas, spaces and tabs. */
bool option_next_word(struct str *rest, struct str *word);

/* Splits into words, each kept with a NUL behind it. A list of nothing but commas is a fault. */
typedef bool option_accept(const struct option *option, struct option_input *input,
                           const char *word);
void option_read_words(const struct option *option, struct config_list *list,
                       struct option_input *input, option_accept *accept);

void option_list_add(struct config_list *list, struct str text, struct place place);

/* Of a config_list, a line for each; of a const char *. */
void option_print_lines(const struct option *option, const void *field, FILE *out);
void option_print_text(const struct option *option, const void *field, FILE *out);

#endif
