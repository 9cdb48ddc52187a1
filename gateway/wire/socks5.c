#include "wire/socks5.h"
