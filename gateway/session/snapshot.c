#include "session/snapshot.h"
