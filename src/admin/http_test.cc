#include "admin/http.h"

#include <gtest/gtest.h>

#include <vector>

namespace dfkv::admin {
namespace {

TEST(AdminHttp, EveryMethodAndVersion) {
  Request request;
  ASSERT_EQ(ParseRequest("GET /metrics HTTP/1.0\r\n\r\n", &request), ParseState::kComplete);
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.path, "/metrics");
  EXPECT_EQ(request.query, "");
  ASSERT_EQ(ParseRequest("PURGE /a%20b?x=1&y=?z HTTP/1.1\r\nHost: h\r\n\r\nbody\n\n", &request),
            ParseState::kComplete);
  EXPECT_EQ(request.method, "PURGE");
  EXPECT_EQ(request.path, "/a%20b");
  EXPECT_EQ(request.query, "x=1&y=?z");
  ASSERT_EQ(ParseRequest("GET /healthz\n\n", &request), ParseState::kComplete);  // typed into netcat
  EXPECT_EQ(request.path, "/healthz");
  ASSERT_EQ(ParseRequest("GET http://host:1/stats HTTP/1.1\r\n\r\n", &request), ParseState::kComplete);
  EXPECT_EQ(request.path, "/stats");
  ASSERT_EQ(ParseRequest("GET http://host HTTP/1.1\r\n\r\n", &request), ParseState::kComplete);
  EXPECT_EQ(request.path, "/");
}

TEST(AdminHttp, EveryPrefixIsIncomplete) {
  const std::string whole = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n";
  Request request;
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_EQ(ParseRequest(std::string_view(whole).substr(0, size), &request), ParseState::kIncomplete)
        << size;
  }
  EXPECT_EQ(request.path, "");
  EXPECT_EQ(ParseRequest(whole, &request), ParseState::kComplete);
}

TEST(AdminHttp, MalformedRequestLines) {
  const std::vector<std::string> lines = {
      "",
      " ",
      "GET",
      "GET ",
      " /metrics",
      "GET metrics",
      "GET *",
      "GET / FTP",
      "GET / HTTP/2",
      "GET /a b",
      "G\x01T / HTTP/1.1",
      "GET /\xC3\xA9 HTTP/1.1",
      std::string(40, 'G') + " /",
      std::string("GET /\0 HTTP/1.1", 15),
  };
  for (const std::string& line : lines) {
    Request request;
    EXPECT_EQ(ParseRequest(line + "\r\n\r\n", &request), ParseState::kMalformed) << line;
    EXPECT_EQ(request.path, "");
  }
}

TEST(AdminHttp, AnswerNamesItsLengthAndClosing) {
  const Response response = {.status = 503, .content_type = "text/x", .body = "no\n"};
  EXPECT_EQ(FormatResponse(response, false),
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/x\r\nContent-Length: 3\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\nno\n");
  EXPECT_TRUE(FormatResponse(response, true)
                  .ends_with("Content-Length: 3\r\nCache-Control: no-store\r\n"
                             "Connection: close\r\n\r\n"));
}

}  // namespace
}  // namespace dfkv::admin
