#include "wire/proxy_header.h"
