#ifndef TRAIN_MTP_WRITE_H
#define TRAIN_MTP_WRITE_H

#include "net.h"

bool net_write(const struct net *n, const char *path);

#endif
