/* The host's memory bandwidth as its modules promise it: channels that have one, times their transfers per second,
 * times their width. Whether a processor reaches that is another question (plan/speed.c has a share). */
#ifndef VR_HW_DIMMS_H
#define VR_HW_DIMMS_H

/* From the firmware's SMBIOS table below `sysfs` (root alone may read it), else from what udev copied of it at boot
 * below `run` (NULL: not asked). 10^9 bytes per second; 0: nobody tells, as in most virtual machines. */
double vr_dimms_gbs(const char *sysfs, const char *run);

#endif
