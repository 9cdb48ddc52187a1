#include "launcher/rights.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct __user_cap_header_struct own_header(void)
{
    return (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
}

struct rights rights_as_inside(void)
{
    struct rights rights = {.put_off = false};
    struct __user_cap_header_struct header = own_header();
    if (syscall(SYS_capget, &header, rights.all) != 0)
        return rights;
    struct rights less = rights;
    _Static_assert(CAP_DAC_OVERRIDE < 32 && CAP_DAC_READ_SEARCH < 32, "both in the first word");
    less.all[0].effective &= ~(CAP_TO_MASK(CAP_DAC_OVERRIDE) | CAP_TO_MASK(CAP_DAC_READ_SEARCH));
    rights.put_off = less.all[0].effective != rights.all[0].effective &&
                     syscall(SYS_capset, &header, less.all) == 0;
    return rights;
}

void rights_take_back(const struct rights *rights)
{
    struct __user_cap_header_struct header = own_header();
    if (rights->put_off)
        syscall(SYS_capset, &header, rights->all);
}

bool rights_may(const char *path, int mode)
{
    return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}
