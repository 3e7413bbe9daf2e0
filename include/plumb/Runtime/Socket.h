//===- Socket.h - TCP, as far as the rendezvous needs it -----------------------===//

#ifndef PLUMB_RUNTIME_SOCKET_H
#define PLUMB_RUNTIME_SOCKET_H

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

namespace plumb {

/// A TCP socket that closes itself. Functions throw plumb::Failure.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~Socket();

  /// Listens on all addresses of this host.
  static Socket listen(int port);
  /// Tries until `timeout`.
  static Socket connect(const std::string &address, int port, std::chrono::seconds timeout);
  /// The next connection; an invalid socket once `shutdown` was called.
  Socket accept() const;

  /// The port that it listens on.
  int port() const;
  bool isValid() const { return descriptor >= 0; }
  /// Wakes whoever is blocked on it.
  void shutdown() const;
  void send(const void *data, std::size_t bytes) const;
  /// False if the other side has closed the connection.
  bool receive(void *data, std::size_t bytes) const;

private:
  int descriptor = -1;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_SOCKET_H
