#include "filters/module.h"

#include "filters/builtin.h"
#include "filters/trusted_path.h"

#include <assert.h>
#include <dlfcn.h>

/* ---- does it fit ---- */

const char *module_unfit(const struct srt_filter_module *module, char *out, size_t size)
{
    if (module->abi != SRT_FILTER_ABI)
        snprintf(out, size, "its ABI is %u, the gateway's %u", module->abi, SRT_FILTER_ABI);
    else if (module->size != sizeof(*module))
        snprintf(out, size, "its struct srt_filter_module has %u bytes, the gateway's %zu",
                 module->size, sizeof(*module));
    else if (module->name == NULL || module->create == NULL || module->destroy == NULL ||
             module->on_request == NULL)
        snprintf(out, size, "it lacks name, create, destroy or on_request");
    else if ((module->enter == NULL) != (module->leave == NULL))
        snprintf(out, size, "it has one of enter and leave without the other");
    else
        return NULL;
    return out;
}

static const struct srt_filter_module *load(const char *path, struct srt_err *err)
{
    char why[256];
    if (trusted_path_check(path, S_IFREG, err) != 0)
        return NULL;
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        srt_err_set(err, "%s", dlerror());
        return NULL;
    }
    const struct srt_filter_module *module = dlsym(object, SRT_FILTER_SYMBOL);
    if (module == NULL)
        srt_err_set(err, "%s exports no " SRT_FILTER_SYMBOL, path);
    else if (module_unfit(module, why, sizeof(why)) != NULL)
        srt_err_set(err, "%s: %s", path, why);
    else
        return module;
    return NULL; /* never closed: its constructors may have left something that runs */
}

/* ---- by its word ---- */

static const struct srt_filter_module *find_builtin(const char *word, struct srt_err *err)
{
    const char *words[16];
    size_t count = 0;
    for (; builtin_modules[count] != NULL; count++) {
        assert(count + 1 < sizeof(words) / sizeof(words[0]));
        words[count] = builtin_modules[count]->name;
        if (strcmp(words[count], word) == 0)
            return builtin_modules[count];
    }
    words[count] = NULL;
    char hint[NEAREST_HINT_MAX];
    srt_err_set(err, "there is no built-in module '%s'%s", word,
                nearest_hint(hint, "", word, words));
    return NULL;
}

const char *module_socket(const struct config_filter *filter)
{
    return strncmp(filter->module, "unix:", 5) == 0 ? filter->module + 5 : NULL;
}

const struct srt_filter_module *module_find(const struct config_filter *filter,
                                            struct faults *faults)
{
    struct srt_err err = {""};
    const struct srt_filter_module *module = NULL;
    if (module_socket(filter) != NULL)
        module = &module_remote;
    else if (filter->module[0] == '/')
        module = load(filter->module, &err);
    else
        module = find_builtin(filter->module, &err);
    if (module == NULL)
        faults_add(faults, FAULT_ERROR, filter->place, "[filter %s]: %s", filter->name, err.text);
    return module;
}
