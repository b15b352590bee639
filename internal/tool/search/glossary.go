package search

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// glossary has Chinese words of tool descriptions with their English, joined by "+" where it is several.
const glossary = `
获取=get 得到=get 查询=query 查找=find 搜索=search 检索=search+retrieve 列出=list 显示=show 展示=show 读取=read 写入=write
保存=save 创建=create 新建=create 生成=generate 删除=delete 移除=remove 更新=update 修改=edit 编辑=edit 添加=add 增加=add
插入=insert 上传=upload 下载=download 发送=send 发布=publish 打开=open 关闭=close 启动=start 停止=stop 运行=run
执行=execute 转换=convert 计算=calculate 分析=analyze 检查=check 验证=validate 比较=compare 推荐=recommend
翻译=translate 总结=summarize 摘要=summary 提取=extract 解析=parse 排序=sort 过滤=filter 统计=statistics 监控=monitor
导出=export 导入=import 设置=set 配置=config 登录=login 注册=register 订阅=subscribe 评论=comment 回复=reply
收藏=favorite 分享=share 关注=follow 预订=book+reserve 预约=appointment 购买=buy 支付=pay+payment 订单=order 价格=price
优惠=discount+deal 折扣=discount 便宜=cheap 商品=product+goods 产品=product 购物=shopping 消费=consumer+shopping
电商=shopping 用户=user 账号=account 密码=password 文件=file 目录=directory 文件夹=folder 路径=path 文档=document
表格=table+spreadsheet 图片=image 图像=image 照片=photo 视频=video 音频=audio 音乐=music 歌曲=song 歌词=lyrics
文章=article 文字=text 文本=text 内容=content 标题=title 关键词=keyword 链接=link+url 网页=webpage+web 网站=website
网址=url 浏览器=browser 邮件=email 消息=message 短信=sms 聊天=chat 电话=phone 新闻=news 资讯=news+information 快讯=news
时事=news+current+affairs 要闻=news 头条=headline+news 热门=popular+trending+hot 热榜=trending 热搜=trending
热点=trending+hot 榜单=ranking+list 排行榜=ranking 排名=ranking 趋势=trend 流行=popular 最新=latest
实时=realtime+current 今天=today 今日=today 明天=tomorrow 昨天=yesterday 当前=current 时间=time 日期=date 日历=calendar
公历=gregorian+calendar 农历=lunar+calendar 阳历=solar+gregorian 黄历=almanac+calendar 节日=holiday
节气=solar+term 星期=week 年=year 月份=month 天气=weather 气温=temperature 温度=temperature 空气质量=air+quality
地图=map 地址=address 地点=place+location 位置=location 坐标=coordinates 经纬度=latitude+longitude+coordinates
路线=route 导航=navigation 距离=distance 附近=nearby 城市=city 省份=province 国家=country 火车=train 高铁=train
动车=train 列车=train 车票=ticket+train 余票=ticket+remaining 车站=station 站点=station 中转=transfer 航班=flight
机票=flight+ticket 机场=airport 飞机=plane+flight 酒店=hotel 旅游=travel+trip 旅行=travel+trip 出行=travel
景点=attraction 餐厅=restaurant 美食=food 菜谱=recipe 菜品=dish 食材=ingredient 烹饪=cook 膳食=meal 食谱=recipe+meal
饮食=diet+food 过敏=allergy 忌口=avoid+allergy 股票=stock 基金=fund 证券=securities+stock 行情=quote+market
汇率=exchange+rate 货币=currency 金融=finance+financial 财经=finance+financial+economy 经济=economy 商业=business
创业=startup 投资=investment 融资=funding 市场=market 公司=company 企业=company+enterprise 科技=technology+tech
技术=technology+tech 科学=science 人工智能=ai+artificial+intelligence 机器学习=machine+learning 软件=software
硬件=hardware 数码=digital+gadget 手机=phone 电脑=computer 互联网=internet 开发=development+developer
编程=programming 代码=code 前端=frontend 后端=backend 数据库=database 数据=data 云计算=cloud 架构=architecture
移动=mobile 游戏=game+gaming 玩家=player+gamer 角色=character 武器=weapon 技能=skill 卡片=card
动画=animation+anime 动漫=anime 漫画=comic 电影=movie+film 电视剧=tv+series 综艺=variety+show 娱乐=entertainment
明星=celebrity 体育=sports 赛事=match+sports 足球=football 篮球=basketball 图书=book 书籍=book 小说=novel 阅读=reading
文学=literature 作者=author 出版=publish 教育=education 学校=school 课程=course 考试=exam 学习=learning 教程=tutorial
知识=knowledge 问答=question+answer 话题=topic 讨论=discussion 健康=health 医疗=medical 疾病=disease
药品=drug+medicine 医院=hospital 医生=doctor 政治=politics 社会=society+social 国际=international+world
全球=global+world 国内=domestic 中国=china+chinese 中文=chinese 英国=uk+british 英文=english 美国=us+american
日本=japan 历史=history 文化=culture 艺术=art 博物馆=museum 设计=design 运势=fortune
星座=horoscope+zodiac 性别=gender 姓名=name 年龄=age 出生=birth 法律=law+legal 招聘=job+recruitment 职位=job
简历=resume 房产=house+property 租房=rent 汽车=car 列表=list 详情=detail 详细=detail 信息=information 分类=category
类型=type 数量=count+number 结果=result 分页=page 评分=rating+score 评测=review 攻略=guide+strategy 指南=guide
随机=random 数字=number 图表=chart 报告=report 任务=task 计划=plan 项目=project 笔记=note 记忆=memory`

type dictionary struct {
	words   map[string][]string
	longest int // in runes
}

var chinese = sync.OnceValue(func() dictionary {
	d := dictionary{words: map[string][]string{}}
	for entry := range strings.FieldsSeq(glossary) {
		word, english, _ := strings.Cut(entry, "=")
		d.words[word] = strings.Split(english, "+")
		for i, w := range d.words[word] {
			d.words[word][i] = singular(w)
		}
		d.longest = max(d.longest, utf8.RuneCountInString(word))
	}
	return d
})

// translate gives the English of the words that it finds in a run, the longest word at each place.
func translate(run []rune) []string {
	d := chinese()
	var out []string
	for i := 0; i < len(run); {
		step := 1
		for n := min(d.longest, len(run)-i); n > 0; n-- {
			if english, ok := d.words[string(run[i:i+n])]; ok {
				out = append(out, english...)
				step = n
				break
			}
		}
		i += step
	}
	return out
}
