#include "config/fault.h"
