package search

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// products are names that the tools and tasks of the development set know: a table that has one was written for
// the test and not for the user.
const products = `12306 airbnb amazon apple ant arxiv asset baidu bazi bbc bilibili bing binance biomcp bitcoin boss brave chess
context7 coingecko coinflip deepwiki docker douban douyin duckduckgo gcores genie github git hackernews hacker huawei hugeicons
howtocook ifanr infoq jd juejin kospi kosdaq leetcode linkedin lol magicui maven mermaid met mindmap netease norges npm nytimes
obsidian okppt openai opgg osm openstreetmap playwright pubmed puppeteer radix reddit searxng shadcn smzdm sspai steam taobao
tencent tft theverge thepaper toutiao twitter valorant verge weibo weixin wechat weread web3 whois wikipedia wuwa wuthering
xiaohongshu yahoo youtube ygocdb yugioh zhihu google ethereum`

const chineseProducts = "推特 微博 微信 抖音 哔哩哔哩 知乎 豆瓣 百度 淘宝 京东 小红书 必应 谷歌 网易 腾讯 掘金 八字 苹果 什么值得买 少数派 头条新闻 库街区 游戏王"

// kinds are words of server names of the development set that are English, or kinds of files.
const kinds = `analysis analyzer base basic calculator chart commander components crypto current design desktop document editor
exchange excel extractor fetch file filesystem flip hub hubs icons image images investor manager map markdown memory museum music
number paper papers pdf ppt price random rate reader repository research search sentinel server sequential simple sitemap tag task text
thinking time toolbox trending trends validator weather word finance taskmanager painter transcript meta data gov deps hub code
mcp com uix coin web`

func TestTablesNameNoProduct(t *testing.T) {
	known := map[string]string{}
	for word, list := range synonyms() {
		known[word] = "the thesaurus"
		for _, w := range list {
			known[w] = "the thesaurus"
		}
	}
	for word, list := range chinese().words {
		known[word] = "the glossary"
		for _, w := range list {
			known[w] = "the glossary"
		}
	}
	for _, name := range append(strings.Fields(products), strings.Fields(chineseProducts)...) {
		if where := known[singular(name)]; where != "" && !slices.Contains(strings.Fields(kinds), name) {
			t.Errorf("%s has %q, the name of a product", where, name)
		}
	}
	dir := os.Getenv("AGENTKERNEL_TOOLSEARCH")
	if dir == "" {
		return
	}
	f, err := os.Open(filepath.Join(dir, "tools.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var tool struct{ Server string }
		if err := json.Unmarshal(lines.Bytes(), &tool); err != nil {
			t.Fatal(err)
		}
		words, _ := terms(tool.Server, false)
		for _, w := range words {
			if where := known[w]; where != "" && !slices.ContainsFunc(strings.Fields(kinds), func(k string) bool { return singular(k) == w }) {
				t.Errorf("%s has %q, a word of the server %s", where, w, tool.Server)
			}
		}
	}
}
