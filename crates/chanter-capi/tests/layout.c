/* The sizes of the structs in the first version of the interface: `src/config.rs` has the same. They may only grow. */
#include "chanter.h"

#define SIZE(what, size) typedef char size_of_##what[sizeof(what) >= (size) ? 1 : -1]

SIZE(chanter_config, 40);
SIZE(chanter_policy, 72);
SIZE(chanter_attr, 56);
SIZE(chanter_case, 56);
SIZE(chanter_ready, 48);
SIZE(pthread_chanter_t, 16);

int layout(void);
int layout(void) { return 0; }
