#include "config/ini.h"
