#include "control/places.h"

#include "srt/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* As configured and not resolved: links on the way have to stay what they are, too. */
static void list_path(struct json *json, const char *path)
{
    char cwd[PATH_MAX], absolute[2 * PATH_MAX];
    if (path == NULL || strcmp(path, "none") == 0 || strcmp(path, "stderr") == 0)
        return;
    if (path[0] == '/') {
        json_text(json, NULL, str_of(path));
    } else if (getcwd(cwd, sizeof(cwd)) != NULL) {
        snprintf(absolute, sizeof(absolute), "%s/%s", cwd, path);
        json_text(json, NULL, str_of(absolute));
    }
}

/* Whether the value of this entry leads to `path`, as ini_read_side_file() names it. */
static bool entry_names(const struct ini_entry *entry, const char *path)
{
    const char *slash = strrchr(entry->place.file, '/');
    size_t dir_len = slash != NULL ? (size_t)(slash - entry->place.file) + 1 : 0;
    if (entry->value[0] == '/' || dir_len == 0)
        return strcmp(entry->value, path) == 0;
    return strncmp(entry->place.file, path, dir_len) == 0 &&
           strcmp(path + dir_len, entry->value) == 0;
}

/* Rule lists, the hosts file and certificates hold no secrets, and the sandbox may need them as
 * well. */
static bool is_secret(const struct ini_doc *doc, const char *path)
{
    static const char *const open_keys[] = {"allow-file", "deny-file", "hosts-file", "ca-file"};
    for (size_t i = 0; i < doc->count; i++) {
        const struct ini_entry *entry = &doc->entries[i];
        for (size_t j = 0; entry->key != NULL && j < sizeof(open_keys) / sizeof(open_keys[0]); j++)
            if (strcmp(entry->key, open_keys[j]) == 0 && entry_names(entry, path))
                return false;
    }
    return true;
}

/* Who can exchange what decides for us decides himself; nor has a sandbox anything to ask there. */
static void list_module_sockets(const struct ini_doc *doc, struct json *json)
{
    static const char scheme[] = "unix:";
    for (size_t i = 0; i < doc->count; i++) {
        const struct ini_entry *entry = &doc->entries[i];
        if (entry->key == NULL || entry->value == NULL)
            continue;
        if (strcmp(entry->key, "socket") == 0 && entry->value[0] == '/')
            list_path(json, entry->value);
        if (strcmp(entry->key, "module") == 0 &&
            strncmp(entry->value, scheme, strlen(scheme)) == 0 &&
            entry->value[strlen(scheme)] == '/')
            list_path(json, entry->value + strlen(scheme));
    }
}

static void list_loaded_modules(const struct ini_doc *doc, struct json *json)
{
    for (size_t i = 0; i < doc->count; i++) {
        const struct ini_entry *entry = &doc->entries[i];
        if (entry->key != NULL && entry->value != NULL && strcmp(entry->key, "module") == 0 &&
            entry->value[0] == '/')
            list_path(json, entry->value);
    }
}

/* A hand-over starts it anew: by the name that was used, or where it lies (control/starter.c). */
static void list_program(struct json *json)
{
    static const char deleted[] = " (deleted)";
    char name[PATH_MAX], path[PATH_MAX];
    autoclose int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, name, sizeof(name) - 1);
    name[len > 0 ? len : 0] = '\0';
    len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[len > 0 ? len : 0] = '\0';
    char *end = path + strlen(path) - (strlen(path) > strlen(deleted) ? strlen(deleted) : 0);
    if (strcmp(end, deleted) == 0)
        *end = '\0';
    if (path[0] == '/')
        list_path(json, path);
    if (strchr(name, '/') != NULL && strcmp(name, path) != 0)
        list_path(json, name);
}

void places_write(const struct gateway *gateway, struct json *json)
{
    const struct gateway_config *config = gateway->snapshot->config;
    json_array_open(json, "hide");
    for (size_t i = 0; i < config->doc.file_count; i++)
        if (is_secret(&config->doc, config->doc.files[i].path))
            list_path(json, config->doc.files[i].path);
    list_path(json, gateway->audit_path);
    list_path(json, config->control.path);
    for (size_t i = 0; i < config->admin_count; i++)
        list_path(json, config->admin[i].path);
    list_module_sockets(&config->doc, json);
    json_array_close(json);

    json_array_open(json, "protect");
    for (size_t i = 0; i < config->doc.file_count; i++)
        if (!is_secret(&config->doc, config->doc.files[i].path))
            list_path(json, config->doc.files[i].path);
    for (size_t i = 0; i < config->doc.include_dir_count; i++)
        list_path(json, config->doc.include_dirs[i]);
    list_path(json, config->dns_hosts_file);
    for (size_t i = 0; i < config->listen_count; i++)
        list_path(json, config->listens[i].address.path);
    list_loaded_modules(&config->doc, json);
    list_program(json);
    json_array_close(json);
}
