//===- Socket.cpp - TCP, as far as the rendezvous needs it ---------------------===//

#include "plumb/Runtime/Socket.h"

#include "plumb/Runtime/Failure.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace plumb {

[[noreturn]] static void failOn(const std::string &what) {
  throw Failure(what + ": " + std::strerror(errno));
}

static void disableDelay(int descriptor) {
  int on = 1;
  // Only latency is lost where this fails.
  (void)::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Socket::~Socket() {
  if (isValid())
    ::close(descriptor);
}

Socket Socket::listen(int port) {
  Socket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bool both = socket.isValid();
  if (!both)
    socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.isValid())
    failOn("cannot make a socket");
  int on = 1, off = 0;
  (void)::setsockopt(socket.descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  if (both)
    (void)::setsockopt(socket.descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const auto *address = both ? reinterpret_cast<sockaddr *>(&six) : reinterpret_cast<sockaddr *>(&four);
  if (::bind(socket.descriptor, address, both ? sizeof six : sizeof four) != 0 ||
      ::listen(socket.descriptor, SOMAXCONN) != 0)
    failOn("cannot listen on port " + std::to_string(port));
  return socket;
}

Socket Socket::connect(const std::string &address, int port, std::chrono::seconds timeout) {
  auto deadline = std::chrono::steady_clock::now() + timeout;
  std::string why;
  for (;;) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
    std::unique_ptr<addrinfo, void (*)(addrinfo *)> owner(found, ::freeaddrinfo);
    why = error ? ::gai_strerror(error) : "";
    for (const addrinfo *info = found; info; info = info->ai_next) {
      Socket socket(::socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, info->ai_protocol));
      if (socket.isValid() && ::connect(socket.descriptor, info->ai_addr, info->ai_addrlen) == 0) {
        disableDelay(socket.descriptor);
        return socket;
      }
      why = std::strerror(errno);
    }
    if (std::chrono::steady_clock::now() >= deadline)
      throw Failure("cannot reach rank 0 at " + address + ":" + std::to_string(port) +
                    " (MASTER_ADDR, MASTER_PORT + 1) within " + std::to_string(timeout.count()) +
                    " s: " + why);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Socket Socket::accept() const {
  int result;
  do
    result = ::accept4(descriptor, nullptr, nullptr, SOCK_CLOEXEC);
  while (result < 0 && (errno == EINTR || errno == ECONNABORTED));
  if (result >= 0)
    disableDelay(result);
  return Socket(result);
}

int Socket::port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr *>(&address), &length) != 0)
    failOn("cannot find the port of a socket");
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 &>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in &>(address).sin_port);
}

void Socket::shutdown() const { (void)::shutdown(descriptor, SHUT_RDWR); }

void Socket::send(const void *data, std::size_t bytes) const {
  for (const char *next = static_cast<const char *>(data); bytes > 0;) {
    ssize_t sent = ::send(descriptor, next, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0)
      failOn("the connection of the rendezvous broke");
    next += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

bool Socket::receive(void *data, std::size_t bytes) const {
  for (char *next = static_cast<char *>(data); bytes > 0;) {
    ssize_t received = ::recv(descriptor, next, bytes, 0);
    if (received < 0 && errno == EINTR)
      continue;
    if (received <= 0)
      return false;
    next += received;
    bytes -= static_cast<std::size_t>(received);
  }
  return true;
}

} // namespace plumb
