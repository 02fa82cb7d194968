/* tools/rpc.mk puts this in front of ggml-rpc.cpp, which keeps weights on disk under their hash and takes any file of
 * that name for whole: one that was cut off, because its process was killed or the disk was full, would later be loaded
 * as weights. So the one std::ofstream there is this class: the file has its name only when all of it is on the disk.
 * What is left of one that was cut off is NAME.part (node/tensor_cache.c removes it). */
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <unistd.h>

class vr_whole_file
{
    std::string name, part;
    int fd;
    bool whole;

  public:
    vr_whole_file(const std::filesystem::path &path, std::ios::openmode)
        : name(path.string()), part(name + ".part"),
          fd(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600)), whole(fd >= 0)
    {
    }
    vr_whole_file(const vr_whole_file &) = delete;

    void write(const char *data, size_t n)
    {
        while (whole && n > 0) {
            ssize_t k = ::write(fd, data, n);
            if (k < 0 && errno == EINTR) continue;
            whole = k > 0;
            if (!whole) return;
            data += k;
            n -= (size_t)k;
        }
    }

    ~vr_whole_file()
    {
        if (fd < 0) return;
        whole = whole && fdatasync(fd) == 0;
        close(fd);
        if (!whole || rename(part.c_str(), name.c_str()) != 0) unlink(part.c_str());
    }
};

namespace std
{
using ::vr_whole_file;
}
#define ofstream vr_whole_file
