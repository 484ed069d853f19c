/* With `_dl_find_object` = 0, as if the C library were older than 2.35. */
