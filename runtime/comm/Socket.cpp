// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Socket.h.

#include "Socket.h"
#include "../support/Error.h"
#include "Control.h"
#include "Monitor.h"
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

constexpr double kSecondsPerAddress = 5;
constexpr useconds_t kMicrosecondsBetweenTries = 100'000;

struct FreeAddresses {
  void operator()(addrinfo *list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses resolve(const Endpoint &endpoint, int flags, std::string &error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo *list = nullptr;
  int code =
      ::getaddrinfo(endpoint.host.c_str(),
                    std::to_string(endpoint.port).c_str(), &hints, &list);
  if (code == 0)
    return Addresses(list);
  error = code == EAI_SYSTEM ? systemError() : ::gai_strerror(code);
  return nullptr;
}

// For signals that are blocked.
constexpr int kMillisecondsBetweenLooks = 200;
thread_local int stopping = 0;

int millisecondsUntil(double deadline) {
  double left = std::min(deadline - monotonicSeconds(), 1e6);
  return static_cast<int>(std::max(0.0, left) * 1000);
}

bool waitFor(int fd, short events, double deadline) {
  pollfd p{fd, events, 0};
  int n, left;
  do {
    failIfStopped();
    left = millisecondsUntil(deadline);
    n = ::poll(&p, 1, std::min(left, kMillisecondsBetweenLooks));
  } while ((n < 0 && errno == EINTR) || (n == 0 && left > 0));
  return n > 0;
}

void set(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof(value));
}

// One try at one address.
FileDescriptor tryAddress(const addrinfo &address, double deadline,
                          std::string &error) {
  FileDescriptor s(::socket(address.ai_family,
                            SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (s && ::connect(s.get(), address.ai_addr, address.ai_addrlen) == 0)
    return s;
  if (s && errno == EINPROGRESS) {
    if (!waitFor(s.get(), POLLOUT, deadline))
      errno = ETIMEDOUT;
    else {
      int code = 0;
      socklen_t length = sizeof(code);
      ::getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &code, &length);
      if (code == 0)
        return s;
      errno = code;
    }
  }
  error = systemError();
  return FileDescriptor();
}

FileDescriptor listenAtAddress(const sockaddr *address, socklen_t length) {
  FileDescriptor s(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!s)
    return s;
  set(s.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6)
    set(s.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(s.get(), address, length) != 0 ||
      ::listen(s.get(), SOMAXCONN) != 0)
    return FileDescriptor();
  return s;
}

FileDescriptor listenEverywhere(uint16_t port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  FileDescriptor s =
      listenAtAddress(reinterpret_cast<sockaddr *>(&six), sizeof(six));
  if (s || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL))
    return s;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  return listenAtAddress(reinterpret_cast<sockaddr *>(&four), sizeof(four));
}

bool isLoopback(const sockaddr &address) {
  if (address.sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(
        &reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr);
  return ntohl(
             reinterpret_cast<const sockaddr_in &>(address).sin_addr.s_addr) >>
             24 ==
         IN_LOOPBACKNET;
}

void setPort(sockaddr &address, uint16_t port) {
  if (address.sa_family == AF_INET6)
    reinterpret_cast<sockaddr_in6 &>(address).sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in &>(address).sin_port = htons(port);
}

[[noreturn]] void failToListen(const Endpoint &endpoint) {
  bool isTaken = errno == EADDRINUSE;
  fail("cannot listen at ", describe(endpoint),
       " for the other machines: ", systemError(),
       isTaken ? "; end what listens there, or give all ranks another "
                 "MASTER_PORT"
               : "");
}

} // namespace

std::string describe(const Endpoint &endpoint) {
  bool six = endpoint.host.find(':') != std::string::npos;
  return concat(six ? "[" : "", endpoint.host, six ? "]:" : ":", endpoint.port);
}

FileDescriptor connectTo(const Endpoint &endpoint, double deadline) {
  std::string error = "nobody answers";
  while (true) {
    if (Addresses list = resolve(endpoint, 0, error))
      for (const addrinfo *a = list.get(); a; a = a->ai_next) {
        double until =
            std::min(deadline, monotonicSeconds() + kSecondsPerAddress);
        if (FileDescriptor s = tryAddress(*a, until, error)) {
          set(s.get(), IPPROTO_TCP, TCP_NODELAY, 1);
          return s;
        }
      }
    if (monotonicSeconds() > deadline)
      fail("cannot connect to ", describe(endpoint), ": ", error);
    failIfStopped();
    ::usleep(kMicrosecondsBetweenTries);
  }
}

std::vector<FileDescriptor> listenAt(const Endpoint &endpoint) {
  std::vector<FileDescriptor> listeners;
  std::string ignored;
  Endpoint at = endpoint;
  // A name's loopback addresses are nobody else's way to this machine.
  bool named = at.host != "localhost" && !resolve(at, AI_NUMERICHOST, ignored);
  errno = 0;
  if (Addresses list = at.host.empty() ? nullptr : resolve(at, 0, ignored))
    for (const addrinfo *a = list.get(); a; a = a->ai_next) {
      if (named && isLoopback(*a->ai_addr))
        continue;
      setPort(*a->ai_addr, at.port);
      FileDescriptor s = listenAtAddress(a->ai_addr, a->ai_addrlen);
      if (!s && errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)
        failToListen(at);
      if (!s)
        continue;
      at.port = portOf(s.get());
      listeners.push_back(std::move(s));
    }
  if (listeners.empty())
    if (FileDescriptor s = listenEverywhere(at.port))
      listeners.push_back(std::move(s));
  if (listeners.empty())
    failToListen(at);
  return listeners;
}

uint16_t portOf(int socket) {
  sockaddr_storage at{};
  socklen_t length = sizeof(at);
  if (::getsockname(socket, reinterpret_cast<sockaddr *>(&at), &length) != 0)
    return 0;
  return ntohs(at.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6 &>(at).sin6_port
                   : reinterpret_cast<sockaddr_in &>(at).sin_port);
}

// As numbers, an IPv4 address of a socket for both families as one.
static Endpoint numbersOf(const sockaddr_storage &at, socklen_t length) {
  constexpr const char *kMapped = "::ffff:";
  char text[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  if (::getnameinfo(reinterpret_cast<const sockaddr *>(&at), length, text,
                    sizeof(text), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  std::string address = text;
  bool mapped =
      address.rfind(kMapped, 0) == 0 && address.find('.') != std::string::npos;
  return {mapped ? address.substr(std::strlen(kMapped)) : address,
          static_cast<uint16_t>(std::strtoul(port, nullptr, 10))};
}

std::string localAddress(int connection) {
  sockaddr_storage at{};
  socklen_t length = sizeof(at);
  if (::getsockname(connection, reinterpret_cast<sockaddr *>(&at), &length) !=
      0)
    return "";
  return numbersOf(at, length).host;
}

std::string peerAddress(int connection) {
  sockaddr_storage at{};
  socklen_t length = sizeof(at);
  if (::getpeername(connection, reinterpret_cast<sockaddr *>(&at), &length) !=
      0)
    return "an unknown address";
  return describe(numbersOf(at, length));
}

std::string addressForOthers(int connection) {
  sockaddr_storage at{};
  socklen_t length = sizeof(at);
  char text[INET6_ADDRSTRLEN] = {};
  if (::getsockname(connection, reinterpret_cast<sockaddr *>(&at), &length) !=
      0)
    return "";
  if (at.ss_family == AF_INET) {
    const in_addr &four = reinterpret_cast<sockaddr_in &>(at).sin_addr;
    if (ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET)
      return "";
    return ::inet_ntop(AF_INET, &four, text, sizeof(text)) ? text : "";
  }
  const in6_addr &six = reinterpret_cast<sockaddr_in6 &>(at).sin6_addr;
  // A link-local address needs the name of an interface, which differs.
  if (at.ss_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&six) ||
      IN6_IS_ADDR_LINKLOCAL(&six))
    return "";
  return ::inet_ntop(AF_INET6, &six, text, sizeof(text)) ? text : "";
}

void enableKeepAlive(int connection) {
  set(connection, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(connection, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(connection, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(connection, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
  set(connection, IPPROTO_TCP, TCP_NODELAY, 1);
}

bool waitReadable(int fd, double deadline) {
  return waitFor(fd, POLLIN, deadline);
}

bool sendAll(int fd, const void *data, size_t bytes, double deadline) {
  const char *from = static_cast<const char *>(data);
  while (bytes > 0) {
    if (!waitFor(fd, POLLOUT, deadline))
      return false;
    ssize_t n = ::send(fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      from += n;
      bytes -= static_cast<size_t>(n);
    } else if (errno != EINTR && errno != EAGAIN) {
      return false;
    }
  }
  return true;
}

bool receiveAll(int fd, void *data, size_t bytes, double deadline) {
  char *to = static_cast<char *>(data);
  while (bytes > 0) {
    if (!waitFor(fd, POLLIN, deadline))
      return false;
    ssize_t n = ::recv(fd, to, bytes, MSG_DONTWAIT);
    if (n > 0) {
      to += n;
      bytes -= static_cast<size_t>(n);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      return false;
    }
  }
  return true;
}

StopOnSignals::StopOnSignals() { ++stopping; }
StopOnSignals::~StopOnSignals() { --stopping; }

void failIfStopped() {
  sigset_t pending;
  if (stopping == 0 || ::sigpending(&pending) != 0)
    return;
  for (int signal : {SIGINT, SIGTERM})
    if (sigismember(&pending, signal) == 1)
      fail("stopped by ", signalName(signal),
           " while it waited for the other ranks");
}

} // namespace shardonnx::rt
